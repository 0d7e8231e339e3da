"""What every score is made of: a function of standardised (θ, x), and the closed list of such functions.

A :class:`ScoreFunction` gives a score at one θ for one x. A :class:`Potential` is a scalar ℓ(θ, x) whose θ-gradient is
that score, and so comes with a log-likelihood up to a term in x alone. A :class:`ClosedForm` is a potential that is
fitted in seconds, with no training.

Each function can be rebuilt from its registered name and its ``settings`` (plain numbers), which is what a saved model
stores. Names of the registry stand in saved files: they never change.
"""

import abc
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._support.legendre import Basis
from .points import Points


class ScoreFunction(eqx.Module):
    """Base of all scores: written for one θ and one x, both standardised."""

    @abc.abstractmethod
    def __call__(self, theta: Float[Array, " params"], x: Float[Array, " ..."]) -> Float[Array, " params"]:
        """Give the score at one θ for one x."""

    @property
    @abc.abstractmethod
    def settings(self) -> dict[str, Any]:
        """Sizes from which :func:`build` makes a function with arrays of the same shapes."""


class Potential(ScoreFunction):
    """Base of scores that are the gradient of a scalar ℓ(θ, x)."""

    @abc.abstractmethod
    def potential(self, theta: Float[Array, " params"], x: Float[Array, " ..."]) -> Float[Array, ""]:
        """Give ℓ(θ, x)."""

    def value_and_score(
        self, theta: Float[Array, " params"], x: Float[Array, " ..."], jets: "Jets | None" = None
    ) -> tuple[Float[Array, ""], Float[Array, " params"]]:
        """Give ℓ(θ, x) and ∇θ ℓ; ``jets`` holds the polynomials at θ, shared by the parts of a sum."""
        del jets
        return jax.value_and_grad(self.potential)(theta, x)

    def __call__(self, theta: Float[Array, " params"], x: Float[Array, " ..."]) -> Float[Array, " params"]:
        """Give ∇θ ℓ."""
        return self.value_and_score(theta, x)[1]


@eqx.filter_custom_jvp
def likelihood(function: Potential, theta: Float[Array, " params"], x: Float[Array, " ..."]) -> Float[Array, ""]:
    """Give ℓ(θ, x), so that its derivative in θ is the score as the potential gives it."""
    return function.potential(theta, x)


@likelihood.def_jvp
def _likelihood_and_derivative(primals: Any, tangents: Any) -> tuple[Any, Any]:
    (function, theta, x), (function_tangent, theta_tangent, x_tangent) = primals, tangents
    value, score = function.value_and_score(theta, x)
    tangent = jnp.zeros_like(value)
    if theta_tangent is not None:
        tangent = tangent + score @ theta_tangent
    if x_tangent is not None or any(t is not None for t in jax.tree.leaves(function_tangent)):
        others = eqx.filter_jvp(lambda f, y: f.potential(theta, y), (function, x), (function_tangent, x_tangent))
        tangent = tangent + others[1]
    return value, tangent


class Jets:
    """Polynomials and their gradients at one θ, each evaluated once."""

    def __init__(self, theta: Float[Array, " params"]):
        self.theta = theta
        self._known: dict[Basis, tuple[Array, Array]] = {}

    def of(self, basis: Basis) -> tuple[Array, Array]:
        """Give all terms (terms,) and their gradient (p, terms)."""
        if basis not in self._known:
            self._known[basis] = basis.jet(self.theta)
        return self._known[basis]


def multiply(first: Array, second: Array) -> Array:
    """Multiply matrices in full single precision, on accelerators too: polynomials cancel."""
    return jnp.matmul(first, second, precision="highest")


class Evaluation(NamedTuple):
    """Scores along the directions of a frame (n, directions), and the trace of their Jacobians in it (n,)."""

    scores: np.ndarray
    traces: np.ndarray


class Frame:
    """Directions in which functions of θ are differentiated: the columns of a matrix F (p, directions).

    Traces in it are tr(Fᵀ H F), those of a Hessian H in the metric F Fᵀ.
    """

    def __init__(self, directions: np.ndarray):
        self.directions = np.asarray(directions, np.float64)
        self._matrices: dict[Basis, np.ndarray] = {}
        # By the array's identity; arrays stay here, so that no other takes its place.
        self._differentiated: dict[tuple[Basis, int], tuple[Any, tuple[np.ndarray, np.ndarray, np.ndarray]]] = {}

    @classmethod
    def of_metric(cls, metric: np.ndarray) -> "Frame":
        """Take the columns of a metric's Cholesky factor."""
        return cls(np.linalg.cholesky(metric))

    def derivatives(self, basis: Basis) -> np.ndarray:
        """Give the matrices (directions, terms, terms) that differentiate coefficients."""
        if basis not in self._matrices:
            self._matrices[basis] = np.tensordot(self.directions.T, basis.derivatives, 1)
        return self._matrices[basis]

    def differentiated(self, basis: Basis, coefficients: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Give coefficients (terms, ...) in double precision, those of derivatives, and of the sum of second ones.

        Rows are evaluated in parts: all but the first find what was made for it.
        """
        key = (basis, id(coefficients))
        if key not in self._differentiated:
            own, matrices = np.asarray(coefficients, np.float64), self.derivatives(basis)
            slopes = matrices @ own
            bends = np.tensordot(matrices, slopes, ([0, 2], [0, 1]))
            self._differentiated[key] = coefficients, (own, slopes, bends)
        return self._differentiated[key][1]


# Closed forms without their arrays, by class, sizes and settings: laying one out takes as long as fitting it.
_SKELETONS: dict[Any, Any] = {}


class ClosedForm(Potential):
    """Base of potentials with a fit of their own, for up to ``max_data`` data.

    They are evaluated in JAX like every other score, and at many rows in NumPy, with nothing to compile.
    """

    max_data: ClassVar[int]

    @classmethod
    @abc.abstractmethod
    def fit(cls, u: np.ndarray | Points, rows: np.ndarray) -> Self:
        """Fit standardised rows (n, d) drawn at parameters u (n, p), scaled to [−1, 1]."""

    @abc.abstractmethod
    def evaluate(self, points: Points, x: np.ndarray, frame: Frame) -> Evaluation:
        """Give scores of rows x (n, d) drawn at points, and the trace of their Jacobians, in double precision."""

    @abc.abstractmethod
    def value_and_score(
        self, theta: Float[Array, " params"], x: Float[Array, " ..."], jets: Jets | None = None
    ) -> tuple[Float[Array, ""], Float[Array, " params"]]:
        """Give ℓ(θ, x) and ∇θ ℓ as they are written down: far less to compile than what differentiation makes."""

    def potential(self, theta: Float[Array, " params"], x: Float[Array, " ..."]) -> Float[Array, ""]:
        """Give ℓ(θ, x)."""
        return self.value_and_score(theta, x)[0]

    @classmethod
    def _filled(cls, *sizes: int, settings: Mapping[str, Any], **arrays: np.ndarray) -> Self:
        """Make a form that holds the fitted arrays, in single precision; what it starts with is never made."""
        key = (cls, sizes, repr(settings))
        if key not in _SKELETONS:
            _SKELETONS[key] = eqx.filter_eval_shape(lambda: cls(*sizes, **settings))
        return _SKELETONS[key]._with(**arrays)

    def _with(self, **arrays: np.ndarray) -> Self:
        """Return a copy that holds the fitted arrays, in single precision."""
        names = list(arrays)
        # Not jnp.asarray, which compiles something for every new shape.
        values = [jax.device_put(np.asarray(arrays[n], np.float32)) for n in names]
        return eqx.tree_at(lambda form: [getattr(form, name) for name in names], self, values)


class Fitter(Protocol):
    """What fits a closed form: a class of them, or something that knows more of the data."""

    @property
    def max_data(self) -> int:
        """The largest data it is for."""
        ...

    def fit(self, points: Points, rows: np.ndarray) -> ClosedForm:
        """Fit standardised rows (n, d) drawn at points."""
        ...


# The closed list of what a saved model may name. Nothing outside it is ever built.
ARCHITECTURES: dict[str, type[ScoreFunction]] = {}

_Kind = TypeVar("_Kind", bound=type[ScoreFunction])


def register(name: str) -> Callable[[_Kind], _Kind]:
    """Register a class under the name by which saved models know it."""

    def add(kind: _Kind) -> _Kind:
        ARCHITECTURES[name] = kind
        return kind

    return add


def build(name: str, num_parameters: int, data_size: int, settings: Mapping[str, Any], *, key: Array) -> ScoreFunction:
    """Make a function of a registered class with fresh weights."""
    return ARCHITECTURES[name](num_parameters, data_size, key=key, **settings)


def build_potential(description: Mapping[str, Any], num_parameters: int, data_size: int, *, key: Array) -> Potential:
    """Make a potential from its description, to be a part of another one."""
    name = description["architecture"]
    built = build(name, num_parameters, data_size, description["settings"], key=key)
    if not isinstance(built, Potential):
        raise ValueError(f"a {name} has no potential and cannot be part of another one")
    return built


def describe(function: ScoreFunction) -> dict[str, Any]:
    """Return the registered name and the settings from which a function is rebuilt."""
    name = next(name for name, kind in ARCHITECTURES.items() if type(function) is kind)
    return {"architecture": name, "settings": function.settings}
