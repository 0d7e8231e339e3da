"""Facts about a model that no computation depends on."""

from collections.abc import Mapping
from typing import Any


class Provenance(Mapping[str, Any]):
    """Facts about a model that no computation depends on: versions, seeds, the loss curve.

    All provenances compare equal, so that models which differ in nothing else share compiled code.
    """

    def __init__(self, entries: Mapping[str, Any] | None = None):
        self._entries = dict(entries or {})

    def __getitem__(self, name: str) -> Any:
        return self._entries[name]

    def __iter__(self) -> Any:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Provenance)

    def __hash__(self) -> int:
        return hash(Provenance)

    def __repr__(self) -> str:
        return f"Provenance({', '.join(self._entries)})"
