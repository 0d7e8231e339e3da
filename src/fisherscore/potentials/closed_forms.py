"""The closed forms by name, from the simplest to the most flexible: what ``auto`` tries before it trains anything.

* ``gaussian``: the mean moves with θ;
* ``location_scale``: location, scale and correlations move too, heavy tails allowed;
* ``quasi_score``: the best score linear in x, exact for every exponential family in x itself, such as Poisson counts;
* ``mapped``: as ``location_scale``, for skewed data mapped to normals by their quantiles.

Each is a class with its evaluation, its fit and the largest data it is for. None needs a latent.
"""

from .base import ClosedForm
from .gaussian import Gaussian
from .location_scale import LocationScale
from .mapped import Mapped
from .quasi_score import QuasiScore

CLOSED_FORMS: dict[str, type[ClosedForm]] = {
    "gaussian": Gaussian,
    "location_scale": LocationScale,
    "quasi_score": QuasiScore,
    "mapped": Mapped,
}
