"""Simulations to and from .npz and HDF5 files.

They hold theta, x, status and, where there is one, the latent as arrays. What else is known of them (names, units,
region, latent model, origin) is one JSON text named ``about``, with checksums of itself and of every array. A file
without it, from elsewhere, is read as a table, given a proposal. Nothing is ever unpickled.
"""

import hashlib
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .._support import fields as read
from .._support.documents import agrees, parse, signed, written
from .._support.whole_file import whole_file
from ..errors import ArgumentError
from .archives import UNREADABLE, h5py_module, read_archive, write_hdf5, write_npz
from .descriptions import describe_latent, describe_proposal, stored_proposal
from .execution.run import OK, STATUSES
from .latent import Latent
from .plan import stored_latent
from .proposal import Proposal
from .records import Records, kept_kind
from .simulations import Origin, Simulations, from_table
from .stores import MemoryStore

_ARRAYS = ("theta", "latent", "x", "weights")
_STATUS = "status"
_SUFFIXES = (".npz", ".h5", ".hdf5")
# The first version, that of 0.1.0, has no number and no checksums, and calls the origin of simulations provenance.
_VERSION, _FIRST = 2, "provenance"
_REMEDY = (
    "To use arrays of your own making or changing, pass them to fisherscore.from_table, or import a file that holds "
    "theta and x and nothing else, with a proposal."
)


def export_simulations(sims: Simulations, path: str | Path) -> None:
    """Write simulations to a file. An earlier export is replaced, a file that is anything else is not.

    Args:
        sims: The simulations, failures included.
        path: A name ending in .npz, .h5 or .hdf5.

    >>> import fisherscore as fs, tempfile
    >>> problem, file = fs.problems.linear_gaussian(), tempfile.mkdtemp() + "/sims.npz"
    >>> sims = fs.simulate(problem.simulator, problem.proposal, 10)
    >>> fs.export_simulations(sims, file)
    >>> fs.import_simulations(file).x.shape
    (10, 2)
    """
    if not isinstance(sims, Simulations):
        raise ArgumentError(f"sims: expected simulations from fisherscore.simulate, got {type(sims).__name__}.")
    target = _checked(path)
    _refuse_place(target)
    arrays = {name: np.asarray(array) for name in _ARRAYS if (array := getattr(sims, name)) is not None}
    arrays[_STATUS] = np.array([s.encode() for s in sims.status])
    about = {
        "version": _VERSION,
        "proposal": describe_proposal(sims.proposal),
        **describe_latent(sims.latent_model),
        "origin": sims.origin.as_dict(),
        "messages": _messages_by_row(sims),
        "sha256": {name: _digest(array) for name, array in arrays.items()},
    }
    write = write_npz if target.suffix == ".npz" else write_hdf5
    try:
        with whole_file(target) as partial:
            write(partial, arrays, written(signed(about)))
    except (OSError, RuntimeError) as error:  # h5py raises either
        raise ArgumentError(f"path: {target} cannot be written: {error}. Make room, or choose another place.") from None


def _messages_by_row(sims: Simulations) -> dict[str, str]:
    """Key messages by row: a file does not keep the numbers of records."""
    indices = sims.store.records.indices.tolist()
    return {str(row): sims.messages[index] for row, index in enumerate(indices) if index in sims.messages}


def _digest(array: np.ndarray) -> str:
    """Hash an array with its type and shape, whatever the order of its bytes in memory."""
    digest = hashlib.sha256(f"{array.dtype.str} {array.shape} ".encode())
    digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _refuse_place(target: Path) -> None:
    """Refuse to take the place of anything but an earlier export."""
    if target.is_dir() or not target.parent.is_dir():
        what = "is a folder" if target.is_dir() else f"cannot be written, since there is no folder {target.parent}"
        raise ArgumentError(f"path: {target} {what}. Choose another name, or make the folder.")
    if target.suffix != ".npz":
        h5py_module()  # says how to install it before anything is done
    if target.is_symlink() or (target.exists() and not (target.is_file() and _is_export(target))):
        raise ArgumentError(
            f"path: {target} exists and is no file that fisherscore exported, or is damaged; it is left alone. Choose "
            "another name, or move it away."
        )


def _is_export(target: Path) -> bool:
    try:
        about = read_archive(target, ())[1]
        return about is not None and {"proposal", "messages"} <= parse(about).keys()
    except (*UNREADABLE, AttributeError):
        return False


def import_simulations(
    path: str | Path, *, proposal: Proposal | None = None, latent: Latent | None = None
) -> Simulations:
    """Read simulations from a file.

    A file written by :func:`export_simulations` says all about itself, and is refused once anything in it was changed.
    One from elsewhere must hold ``theta`` (n, p) and ``x`` (n, ...), and is read as a table.

    Args:
        path: A .npz, .h5 or .hdf5 file.
        proposal: Names of the columns and the region to learn in, for files from elsewhere; else needed only for
            distributions that are not common, and must be the one the simulations were drawn from.
        latent: Needed only for latent models the user wrote.

    Returns:
        The simulations, failures included.

    >>> import fisherscore as fs, numpy as np, tempfile
    >>> file = tempfile.mkdtemp() + "/table.npz"
    >>> np.savez(file, theta=np.linspace(0, 1, 20)[:, None], x=np.ones((20, 3)))
    >>> len(fs.import_simulations(file, proposal=fs.uniform(a=(0.0, 1.0))))
    20
    """
    target = _checked(path)
    if not target.is_file():
        raise ArgumentError(f"path: there is no file {path}.")
    try:
        arrays, about = read_archive(target, (*_ARRAYS, _STATUS), (_STATUS,))
    except UNREADABLE as error:
        raise ArgumentError(f"path: {path} cannot be read as {target.suffix} ({_brief(error)}).") from None
    missing = [name for name in ("theta", "x") if name not in arrays]
    if missing:
        raise ArgumentError(f"path: {path} has no array {missing[0]!r}; it has {sorted(arrays)}.")
    if about is None:
        if proposal is None:
            raise ArgumentError(f"proposal: {path} does not say what its columns are. Pass a proposal.")
        return from_table(arrays["theta"], arrays["x"], proposal)
    try:
        document = _checked_about(parse(about), arrays)
        records, origin = _records(arrays, document), _origin(document)
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise ArgumentError(
            f"path: {path} is damaged, or was changed after it was exported ({_brief(error)}). Export the simulations "
            f"again. {_REMEDY}"
        ) from None
    return _rebuilt(arrays, document, (records, origin), (proposal, latent))


def _checked_about(about: Any, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Compare a description and the arrays with their checksums; the first version has none."""
    if not isinstance(about, dict):
        raise TypeError("it does not say what it holds")
    if _FIRST in about and not {"version", "checksum", "sha256"} & about.keys():
        return about
    if not agrees(about):
        raise ValueError("its description does not agree with its checksum")
    if about["version"] != _VERSION:
        raise ValueError(f"it is of version {about['version']}, this fisherscore reads version {_VERSION}")
    if about["sha256"].keys() != arrays.keys():
        raise ValueError(f"it holds {sorted(arrays)} instead of {sorted(about['sha256'])}")
    for name, array in arrays.items():
        if _digest(array) != about["sha256"][name]:
            raise ValueError(f"{name} does not agree with its checksum")
    return about


def _records(arrays: dict[str, np.ndarray], about: dict[str, Any]) -> Records:
    """Check the arrays and put them together."""
    status = np.array([text.decode() for text in arrays[_STATUS].tolist()])
    if status.ndim != 1 or not set(status.tolist()) <= set(STATUSES):
        raise ValueError("a status is unknown")
    theta, x = np.asarray(arrays["theta"], np.float64), np.asarray(arrays["x"])
    x = np.asarray(x, kept_kind(x.dtype, math.prod(x.shape[1:])))
    latent = np.asarray(arrays["latent"], np.float64) if "latent" in arrays else None
    lengths = {name: array.shape[:1] for name, array in arrays.items()}
    if set(lengths.values()) != {(len(status),)}:
        raise ValueError(f"its arrays have different numbers of rows: {lengths}")
    if theta.ndim != 2 or theta.shape[1] != len(about["proposal"]["names"]) or x.ndim < 2:
        raise ValueError(f"theta of shape {theta.shape} and x of shape {x.shape} do not fit together")
    inputs = theta if latent is None else np.concatenate([theta, latent.reshape(len(status), -1)], axis=1)
    bad = ~np.isfinite(inputs).all(axis=1)
    bad |= (status == OK) & ~np.isfinite(x.reshape(len(x), -1)).all(axis=1)
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"row {row} is {str(status[row])!r}, and has NaN or infinite values")
    weights = arrays.get("weights")
    if weights is not None and not (np.isfinite(weights).all() and (weights >= 0).all() and weights.ndim == 1):
        raise ValueError("a weight is negative, NaN or infinite")
    messages = {int(row): text for row, text in read.dictionary_of(read.text)(about["messages"]).items()}
    if not set(messages) <= set(range(len(status))):
        raise ValueError("a message belongs to no row")
    return Records(indices=np.arange(len(status)), status=status, theta=theta, latent=latent, x=x, messages=messages)


def _origin(about: dict[str, Any]) -> Origin:
    origin = about.get("origin") or about[_FIRST]
    rate = read.number(origin.get("failure_rate", 0.0))
    if not 0 <= rate <= 1:
        raise ValueError("its failure rate is no fraction")
    return Origin(
        simulator=read.text(origin["simulator"]),
        seed=read.optional(read.count)(origin.get("seed")),
        num_simulations=read.count(origin["num_simulations"]),
        failure_rate=rate,
    )


def _rebuilt(
    arrays: dict[str, np.ndarray],
    about: dict[str, Any],
    kept: tuple[Records, Origin],
    given: tuple[Proposal | None, Latent | None],
) -> Simulations:
    """Make simulations of what a file holds, with the proposal and the latent model given or described."""
    (records, origin), (proposal, latent) = kept, given
    first = about.get("origin") or about[_FIRST]
    is_table = bool(first.get("table"))
    described = {"latent": None} if is_table else {"additive_noise": first.get("additive_noise"), **about}
    chosen = stored_proposal(about["proposal"], proposal)
    model = stored_latent(described, latent, chosen)
    if is_table:
        records = replace(records, latent=None)  # version 0.1.0 gave tables a latent, which was theta again
    elif (model is None) != (records.latent is None):
        raise ArgumentError("path: the file has a latent model and no latents, or the other way round: it is damaged.")
    return Simulations(
        store=MemoryStore(records),
        proposal=chosen,
        latent_model=model,
        origin=origin,
        weights=np.asarray(arrays["weights"], np.float64) if "weights" in arrays else None,
    )


def _checked(path: str | Path) -> Path:
    if not isinstance(path, str | Path) or "\0" in str(path):
        raise ArgumentError(f"path: expected the name of a file, got {path!r}.")
    target = Path(path)
    if target.suffix not in _SUFFIXES:
        raise ArgumentError(f"path: expected a name ending in {', '.join(_SUFFIXES)}, got {target.name!r}.")
    try:
        target.exists()
    except OSError as error:
        raise ArgumentError(
            f"path: {target.name[:60]!r} can be no file: {error.strerror}. Choose another name."
        ) from None
    return target


def _brief(error: BaseException) -> str:
    text = str(error) or type(error).__name__
    return text if len(text) <= 200 else text[:197] + "..."
