"""Results kept as folders of one JSON document and one file of arrays; every field and every shape is checked."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ModelFolderError
from .fields import Reader, read_fields
from .folder import as_folder, read_arrays, read_json, write_folder


@dataclass(frozen=True)
class ResultFolder:
    """How one kind of result is kept: schema and version, names of its two files, readers of the document's fields."""

    schema: str
    version: int
    document: str
    arrays: str
    readers: Mapping[str, Reader]

    def write(self, path: str | Path, fields: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Write the fields and arrays of a result, replacing a result of the same kind."""
        document = {"schema": self.schema, "version": self.version, **fields}
        double = {name: np.asarray(array, np.float64) for name, array in arrays.items()}
        write_folder(path, {self.document: document}, {self.arrays: double})

    def read_fields(self, path: str | Path) -> dict[str, Any]:
        """Read and check the document."""
        file = as_folder(path) / self.document
        return read_fields(read_json(file, self.schema, self.version), self.readers, file)

    def read_arrays(self, path: str | Path, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
        """Read arrays of finite numbers in double precision, and check their names and shapes."""
        expected = {name: (shape, np.float64) for name, shape in shapes.items()}
        return read_arrays(as_folder(path) / self.arrays, expected)

    def damaged(self, path: str | Path, reason: str) -> ModelFolderError:
        """Make the error for a folder whose parts do not fit together."""
        return ModelFolderError(f"{as_folder(path)}: {reason}. Is the folder damaged?")
