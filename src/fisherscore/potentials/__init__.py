"""Functions ℓ(θ, x) whose gradient in θ is a score: closed forms, each with its fit, networks, and weighted sums.

Importing any of them registers all, so that every saved model can be read.
"""

from . import (  # noqa: F401
    condensed,
    gaussian,
    location_scale,
    log_gamma,
    mapped,
    mixture_density,
    networks,
    quasi_score,
    rare_events,
    stack,
)
