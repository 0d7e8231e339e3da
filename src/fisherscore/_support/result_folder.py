"""Results kept as folders of one JSON document and one file of arrays; every field and every shape is checked."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..errors import ModelFolderError
from .fields import Reader, read_fields
from .folder import FolderKind, as_folder, write_folder
from .folder_reading import read_arrays, read_document, read_whole

_Value = TypeVar("_Value")
# Gives arrays of finite numbers in double precision, of the shapes by name.
ArrayReader = Callable[[Mapping[str, tuple[int, ...]]], dict[str, np.ndarray]]


@dataclass(frozen=True)
class ResultFolder:
    """One kind of result: how it is kept, and readers of the document's fields."""

    kind: FolderKind
    readers: Mapping[str, Reader]

    def write(self, path: str | Path, fields: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Write the fields and arrays of a result, replacing a result of the same kind."""
        write_folder(path, self.kind, fields, {name: np.asarray(array, np.float64) for name, array in arrays.items()})

    def read(self, path: str | Path, build: Callable[[dict[str, Any], ArrayReader], _Value]) -> _Value:
        """Make a result of its fields and of arrays, whose shapes follow from the fields."""
        folder = as_folder(path)

        def once() -> _Value:
            document = read_document(folder, self.kind)
            fields = read_fields(document, self.readers, folder / self.kind.document)

            def arrays(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
                expected = {name: (shape, np.float64) for name, shape in shapes.items()}
                return read_arrays(folder, self.kind, document, expected)

            return build(fields, arrays)

        return read_whole(folder, self.kind, once)

    def damaged(self, path: str | Path, reason: str) -> ModelFolderError:
        """Make the error for a folder whose parts do not fit together."""
        return ModelFolderError(f"{as_folder(path)}: {reason}. Is the folder damaged?")
