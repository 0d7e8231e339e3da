"""Simulations to and from .npz and HDF5 files.

They hold theta, x, status and, where there is one, the latent as arrays. What else is known of them (names, units,
region, latent model, origin) is one JSON text named ``about``. A file without it, from elsewhere, is read as a table,
given a proposal. Nothing is ever unpickled.
"""

import contextlib
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ArgumentError, MissingExtraError
from .descriptions import describe_latent, describe_proposal, stored_proposal
from .execution.run import STATUSES
from .latent import Latent
from .plan import stored_latent
from .proposal import Proposal
from .records import Records
from .simulations import Origin, Simulations, from_table
from .stores import MemoryStore

_ARRAYS = ("theta", "latent", "x", "weights")
_HDF5 = (".h5", ".hdf5")
_SUFFIXES = (".npz", *_HDF5)


def export_simulations(sims: Simulations, path: str | Path) -> None:
    """Write simulations to a file.

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
    about = json.dumps(
        {
            "proposal": describe_proposal(sims.proposal),
            **describe_latent(sims.latent_model),
            "origin": sims.origin.as_dict(),
            "messages": _messages_by_row(sims),
        }
    )
    arrays = {name: array for name in _ARRAYS if (array := getattr(sims, name)) is not None}
    arrays["status"] = np.array([s.encode() for s in sims.status])
    with _complete_or_not_at_all(target) as partial:
        if target.suffix == ".npz":
            with partial.open("wb") as file:
                np.savez(file, **arrays, about=np.array(about))
            return
        with _h5py().File(partial, "w") as file:
            for name, array in arrays.items():
                file.create_dataset(name, data=array)
            file.attrs["about"] = about


def _messages_by_row(sims: Simulations) -> dict[str, str]:
    """Key messages by row: a file does not keep the numbers of records."""
    indices = sims.store.records.indices.tolist()
    return {str(row): sims.messages[index] for row, index in enumerate(indices) if index in sims.messages}


@contextlib.contextmanager
def _complete_or_not_at_all(target: Path) -> Iterator[Path]:
    """Give another name to write to, and rename the file when it is complete."""
    partial = target.with_name(f".{target.name}")
    if target.is_dir() or not target.parent.is_dir():
        what = "is a folder" if target.is_dir() else f"cannot be written, since there is no folder {target.parent}"
        raise ArgumentError(f"path: {target} {what}. Choose another name, or make the folder.")
    try:
        yield partial
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def import_simulations(
    path: str | Path, *, proposal: Proposal | None = None, latent: Latent | None = None
) -> Simulations:
    """Read simulations from a file.

    A file written by :func:`export_simulations` says all about itself. One from elsewhere must hold ``theta`` (n, p)
    and ``x`` (n, ...), and is read as a table.

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
    arrays, about = _read(_checked(path))
    missing = [name for name in ("theta", "x") if name not in arrays]
    if missing:
        raise ArgumentError(f"path: {path} has no array {missing[0]!r}; it has {sorted(arrays)}.")
    if about is None:
        if proposal is None:
            raise ArgumentError(f"proposal: {path} does not say what its columns are. Pass a proposal.")
        return from_table(arrays["theta"], arrays["x"], proposal)
    try:
        return _rebuilt(arrays, json.loads(about), proposal, latent)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        if isinstance(error, ArgumentError):
            raise
        raise ArgumentError(f"path: {path} is damaged or was not written by fisherscore ({error}).") from None


def _rebuilt(
    arrays: dict[str, np.ndarray], about: dict[str, Any], proposal: Proposal | None, latent: Latent | None
) -> Simulations:
    """Make simulations of what a file holds; files of version 0.1.0 have a ``provenance`` instead of an origin."""
    status = np.array([text.decode() for text in arrays["status"].tolist()])
    if not set(status) <= set(STATUSES):
        raise ValueError(f"unknown status among {sorted(set(status))}")
    origin = about.get("origin") or about["provenance"]
    is_table = bool(origin.get("table"))
    described = {"latent": None} if is_table else {"additive_noise": origin.get("additive_noise"), **about}
    chosen = stored_proposal(about["proposal"], proposal)
    model = stored_latent(described, latent, chosen)
    return Simulations(
        store=MemoryStore(
            Records(
                indices=np.arange(len(status)),
                status=status,
                theta=np.asarray(arrays["theta"], np.float64),
                latent=None if model is None else np.asarray(arrays["latent"], np.float64),
                x=np.asarray(arrays["x"], np.float64),
                messages={int(index): text for index, text in about["messages"].items()},
            )
        ),
        proposal=chosen,
        latent_model=model,
        origin=Origin(
            simulator=str(origin["simulator"]),
            seed=origin.get("seed"),
            num_simulations=int(origin["num_simulations"]),
            failure_rate=float(origin.get("failure_rate", 0.0)),
        ),
        weights=np.asarray(arrays["weights"], np.float64) if "weights" in arrays else None,
    )


def _read(path: Path) -> tuple[dict[str, np.ndarray], str | None]:
    if not path.is_file():
        raise ArgumentError(f"path: there is no file {path}.")
    try:
        if path.suffix == ".npz":
            with zipfile.ZipFile(path), np.load(path, allow_pickle=False) as file:  # nothing but an archive
                arrays = {name: file[name] for name in file.files}
            about = arrays.pop("about", None)
            return arrays, None if about is None else str(about)
        with _h5py().File(path, "r") as file:
            arrays = {name: file[name][()] for name in file if name in (*_ARRAYS, "status")}
            return arrays, file.attrs.get("about")
    except (OSError, ValueError, TypeError, zipfile.BadZipFile) as error:
        raise ArgumentError(f"path: {path} cannot be read as {path.suffix} ({error}).") from None


def _checked(path: str | Path) -> Path:
    if not isinstance(path, str | Path):
        raise ArgumentError(f"path: expected the name of a file, got {path!r}.")
    target = Path(path)
    if target.suffix not in _SUFFIXES:
        raise ArgumentError(f"path: expected a name ending in {', '.join(_SUFFIXES)}, got {target.name!r}.")
    return target


def _h5py() -> Any:
    try:
        import h5py
    except ImportError:
        raise MissingExtraError("HDF5 files need h5py: pip install 'fisherscore[hdf5]'") from None
    return h5py
