"""The ten tasks of the public benchmark of simulation-based inference, with simulators of our own.

Lueckmann, Boelts, Greenberg, Gonçalves and Macke, "Benchmarking Simulation-Based Inference", AISTATS 2021, arXiv
2101.04653; constants as in its package ``sbibm`` 1.1.0. Observations, true parameters and reference posteriors are
read from that package's files (:mod:`sbi_tasks.reference`); it is never imported.
"""

from collections.abc import Callable

from .gaussians import gaussian_linear, gaussian_linear_uniform, gaussian_mixture
from .glm import bernoulli_glm, bernoulli_glm_raw
from .moons import two_moons
from .populations import lotka_volterra, sir
from .reference import References
from .slcp import slcp, slcp_distractors
from .task import Task

TASKS: dict[str, Callable[[], Task]] = {
    make.__name__: make
    for make in (
        gaussian_linear,
        gaussian_linear_uniform,
        bernoulli_glm,
        bernoulli_glm_raw,
        sir,
        lotka_volterra,
        slcp,
        slcp_distractors,
        two_moons,
        gaussian_mixture,
    )
}

__all__ = ["TASKS", "References", "Task"]
