"""Priors as users give them, in any form, made into what samplers need."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import numpy as np
import numpyro.distributions as dist

from ..._support.arguments import as_names, check_names
from ...errors import ArgumentError
from ...score.model import ScoreModel
from ...simulation.proposal import Proposal
from .blocks import Block, Prior
from .density import DensityPrior
from .inequalities import rows_of
from .joint import joint
from .laws import independent, is_scalar_law
from .regions import cut_off, polytope
from .samples import SamplePrior
from .scipy_laws import from_scipy, is_scipy_law

_FORMS = (
    "a mapping from parameter name, or a tuple of names, to a NumPyro distribution; one joint distribution over all "
    "parameters; or what prior_from_samples, prior_from_density and restricted_prior return"
)


@dataclass(frozen=True, eq=False)
class RestrictedPrior:
    """A prior cut down to a region that is no box; see :func:`restricted_prior`.

    Attributes:
        prior: The prior inside, in any form; None for uniform over the training region.
        where: The region: inequalities as text, a pair (A, b), or a function.
        names: The parameters that (A, b) or the function are about; None for all of the model's.

    >>> import fisherscore as fs
    >>> fs.restricted_prior(None, "a <= b")
    RestrictedPrior(uniform over the training region, where a <= b)
    """

    prior: Any
    where: Any
    names: tuple[str, ...] | None

    def __repr__(self) -> str:
        inside = "uniform over the training region" if self.prior is None else repr(self.prior)
        texts = [self.where] if isinstance(self.where, str) else self.where
        if isinstance(texts, list) and all(isinstance(text, str) for text in texts):
            return f"RestrictedPrior({inside}, where {' and '.join(texts)})"
        return f"RestrictedPrior({inside}, where {'within walls' if callable(texts) else 'A θ ≤ b'})"


def restricted_prior(prior: Any, where: Any, *, names: Sequence[str] | None = None) -> RestrictedPrior:
    """Cut a prior down to a region that is no box, such as a triangle.

    Linear inequalities are sampled in coordinates that fill the region. Beyond the walls of a function the prior is
    zero, and a sampler turns back there: right as well, but slower the more of the posterior lies along a wall.

    Args:
        prior: A prior in any form; None for uniform over the training region.
        where: Linear inequalities as text, such as ``"a + 2*b <= 1"``, or a list of such texts, all of which hold; a
            pair (A, b) of arrays for A θ ≤ b; or a JAX function of an array of parameters that returns a truth value.
        names: The parameters that (A, b) or the function are about, in their order; by default all of the model's.

    Returns:
        A prior for :func:`sample` and wherever priors are taken, which may be restricted once more.

    >>> import fisherscore as fs
    >>> fs.restricted_prior(None, ["theta1 >= 0", "0 <= theta2 <= theta1"])
    RestrictedPrior(uniform over the training region, where theta1 >= 0 and 0 <= theta2 <= theta1)
    """
    if names is not None:
        listed = [names] if isinstance(names, str) else list(names)
        names = as_names(listed, max(1, len(listed)))
    if not callable(where):
        if isinstance(where, tuple) and where and all(isinstance(text, str) for text in where):
            where = list(where)
        if not isinstance(where, str | list | tuple):
            rows_of(where, names or ())  # says what is expected
    return RestrictedPrior(prior, where, None if names is None else tuple(names))


@dataclass(frozen=True)
class Parameters:
    """The parameters a prior is for, and the region that is uniform where none is given."""

    names: tuple[str, ...]
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, model: ScoreModel) -> "Parameters":
        """Take those of a model."""
        return cls(model.names, model.low, model.high)

    def region(self) -> dict[str, tuple[float, float]]:
        """Return the ends of the region by name."""
        ends = zip(self.names, self.low, self.high, strict=True)
        return {name: (float(low), float(high)) for name, low, high in ends}


# Names and the law of their parameters: a NumPyro distribution, draws or a density.
Piece = tuple[tuple[str, ...], Any]
# A region: inequalities, a pair of arrays or a function, and the parameters it is about.
_Cut = tuple[Any, tuple[str, ...]]


def prior_of(parameters: Parameters, prior: Any) -> Prior:
    """Return a prior in any form as samplers take it; parameters without one are uniform over the region."""
    inside, cuts = uncut(prior, parameters.names)
    pieces = pieces_of(inside, parameters.names)
    named = {name for names, _ in pieces for name in names}
    region = parameters.region()
    pieces += [((name,), dist.Uniform(*region[name])) for name in parameters.names if name not in named]
    faces = _faces([cut for cut in cuts if not callable(cut[0])], parameters.names)
    return Prior(_within_walls(pieces, parameters, faces, [cut for cut in cuts if callable(cut[0])]))


def pieces_of(prior: Any, names: tuple[str, ...]) -> list[Piece]:
    """Return the laws of a prior that is not cut, each with its parameters; those without one are left out."""
    if prior is None:
        return []
    if isinstance(prior, Proposal):
        prior = dict(zip(prior.names, prior.distributions, strict=True))
    if isinstance(prior, SamplePrior | DensityPrior):
        check_names(prior.names, names, "prior")
        return [(prior.names, prior)]
    if isinstance(prior, Mapping):
        pieces = [_piece(key, law, names) for key, law in prior.items()]
        listed = [name for own, _ in pieces for name in own]
        twice = [name for name in listed if listed.count(name) > 1]
        if twice:
            raise ArgumentError(f"prior: parameter {twice[0]!r} has more than one law. Give it one.")
        return pieces
    if is_scipy_law(prior) or isinstance(prior, dist.Distribution):
        return [_piece(names if len(names) > 1 else names[0], prior, names, "prior")]
    raise ArgumentError(f"prior: expected {_FORMS}; got {type(prior).__name__}.")


def _piece(key: Any, law: Any, known: tuple[str, ...], argument: str = "") -> Piece:
    """Check one law of a mapping and the parameter or parameters it is for."""
    argument = argument or f"prior[{key!r}]"
    names = (key,) if isinstance(key, str) else tuple(key) if isinstance(key, tuple) else key
    if not isinstance(names, tuple):
        raise ArgumentError(f"prior: expected names or tuples of names as keys, got {key!r}.")
    check_names(names, known, "prior")
    if len(set(names)) != len(names) or not names:
        raise ArgumentError(f"{argument}: expected different names, got {key!r}.")
    if isinstance(law, SamplePrior | DensityPrior):
        if set(law.names) != set(names):
            raise ArgumentError(f"{argument}: this law is for {', '.join(law.names)}. Give it under these names.")
        return law.names, law
    if is_scipy_law(law):
        law = from_scipy(law, argument)
    if len(names) == 1 and is_scalar_law(law):
        return names, law
    if len(names) == 1 and not (isinstance(law, dist.Distribution) and law.event_shape == (1,)):
        raise ArgumentError(
            f"{argument}: expected a proper scalar continuous NumPyro distribution, got {law!r}."
            + (" For several parameters, give a tuple of their names." if getattr(law, "event_shape", ()) else "")
        )
    if isinstance(law, dist.Distribution) and law.batch_shape == (len(names),) and not law.event_shape:
        law = law.to_event(1)
    joint(law, tuple(range(len(names))), argument)  # says what is wrong with it
    return names, law


def uncut(prior: Any, names: tuple[str, ...]) -> tuple[Any, list[_Cut]]:
    """Take a prior out of its regions."""
    cuts: list[_Cut] = []
    while isinstance(prior, RestrictedPrior):
        about = names if prior.names is None else prior.names
        check_names(about, names, "names")
        cuts.append((prior.where, about))
        prior = prior.prior
    return prior, cuts


class _Seen(eqx.Module):
    """A function of some of the parameters as one of all of them."""

    within: Any
    places: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, theta: Any) -> Any:
        return self.within(theta[np.array(self.places)])


def _faces(cuts: list[_Cut], names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Collect the linear inequalities of all cuts, over all parameters."""
    rows, bounds = [np.zeros((0, len(names)))], [np.zeros(0)]
    for where, about in cuts:
        matrix, limits = rows_of(where, about)
        whole = np.zeros((len(matrix), len(names)))
        whole[:, [names.index(name) for name in about]] = matrix
        rows.append(whole)
        bounds.append(limits)
    return np.concatenate(rows), np.concatenate(bounds)


def _within_walls(
    pieces: list[Piece], parameters: Parameters, faces: tuple[np.ndarray, np.ndarray], walls: list[_Cut]
) -> tuple[Block, ...]:
    """Make blocks of laws; with walls, one block of all."""
    if not walls:
        return _within_faces(pieces, parameters, faces)
    names, (within, about) = parameters.names, walls[0]
    inner = Prior(_within_walls(pieces, parameters, faces, walls[1:]))
    seen = within if about == names else _Seen(within, tuple(names.index(name) for name in about))
    return (cut_off(inner, seen, tuple(range(len(names)))),)


def _within_faces(
    pieces: list[Piece], parameters: Parameters, faces: tuple[np.ndarray, np.ndarray]
) -> tuple[Block, ...]:
    """Make blocks of laws; those with parameters in the inequalities become one."""
    (rows, bounds), names, region = faces, parameters.names, parameters.region()
    if not len(rows):
        return _plain(pieces, names, region)
    cut = {names[i] for i in np.flatnonzero(rows.any(axis=0))}
    touched = [piece for piece in pieces if cut & set(piece[0])]
    rest = [piece for piece in pieces if not cut & set(piece[0])]
    own = tuple(name for name in names if any(name in piece for piece, _ in touched))
    places = tuple(names.index(name) for name in own)
    inner = Prior(_plain(touched, own, region))
    return (polytope(inner, rows[:, places], bounds, places), *_plain(rest, names, region))


def _plain(pieces: list[Piece], names: tuple[str, ...], region: Mapping[str, tuple[float, float]]) -> tuple[Block, ...]:
    """Make blocks of laws that no region cuts: scalar ones together."""
    blocks: list[Block] = []
    scalar = {own[0]: law for own, law in pieces if is_scalar_law(law)}
    if scalar:
        kept = [name for name in names if name in scalar]
        blocks.append(independent([scalar[name] for name in kept], [names.index(name) for name in kept]))
    for own, law in pieces:
        places = tuple(names.index(name) for name in own)
        if isinstance(law, SamplePrior):
            blocks.append(law.block(places))
        elif isinstance(law, DensityPrior):
            blocks.append(law.block(places, region))
        elif not is_scalar_law(law):
            blocks.append(joint(law, places, f"prior[{own!r}]"))
    return tuple(blocks)
