"""The state of a table: what it was made of, what was left out, and how many rows each day has.

A document of its own for each commit, written before the commit that names it; one that no commit names means nothing.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tidings.errors import StoreError
from tidings.model.tables import Table
from tidings.pipeline.storage_paths import StoragePath

FOLDER = "_tidings"


@dataclass(frozen=True, slots=True)
class TablePart:
    commit: str  # the run that changed its rows last
    rows: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """The state of a table."""

    number: int
    table: str
    version: int
    parts: Mapping[str, TablePart]
    inputs: Mapping[str, Any]  # what was consumed: two runs with equal inputs give equal tables
    skipped: Mapping[str, str] = field(default_factory=dict)  # inputs that were left out, and why
    software: Mapping[str, str] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts.values())


class StateFolder:
    """The states of one table, by the transactions that name them."""

    def __init__(self, place: StoragePath, table: Table) -> None:
        self._place, self._table = place.under(FOLDER), table

    def write(self, transaction: int, state: Manifest) -> None:
        self._document(transaction).write(json.dumps(asdict(state), indent=1, sort_keys=True).encode())

    def read(self, transaction: int) -> Manifest:
        place = self._document(transaction)
        try:
            found = json.loads(place.read())
            parts = {name: TablePart(**part) for name, part in found.pop("parts").items()}
            made = Manifest(parts=parts, **found)
        except (ValueError, TypeError, KeyError) as error:
            raise StoreError("E_STORE_DAMAGED", f"{place.uri} is no state of a table: {error}") from None
        if made.table != self._table.name or made.version > self._table.version:
            wanted = f"{self._table.name} {self._table.version}"
            raise StoreError("E_STORE_VERSION", f"{place.uri} is of {made.table} {made.version}; this reads {wanted}")
        return made

    def tidy(self, current: int, oldest_ns: int) -> None:
        """Removes documents older than that, except the current one."""
        for place, _, changed_ns in self._place.list():
            if changed_ns < oldest_ns and place != self._document(current):
                place.remove_file()

    def _document(self, transaction: int) -> StoragePath:
        return self._place.under(f"{transaction:016x}.json")
