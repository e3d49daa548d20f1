"""Which family each run says its task is of, as columns. A file without families costs nothing."""

from array import array

import msgspec
import numpy as np
from msgspec import UNSET

from twoarm.runs.arrays import Ints
from twoarm.runs.record import LineColumns
from twoarm.runs.tool_columns import any_known


class FamilyColumns(msgspec.Struct, frozen=True, kw_only=True):
    """Row `row[i]`, in order, names the family with code `family[i]`; other rows name none."""

    names: tuple[str, ...]
    row: Ints
    family: Ints


class FamilyBuilder:
    """Takes decoded lines a batch at a time and gives the columns at the end."""

    def __init__(self) -> None:
        self._names: dict[str, int] = {}
        self._row = array("q")
        self._family = array("q")

    def add(self, columns: LineColumns, first_row: int) -> None:
        """Take note of runs that follow those before; a key that no line has is not there."""
        families = columns.get("family", ())
        if not any_known(families):
            return
        for row, family in enumerate(families, first_row):
            if family is not None and family is not UNSET:
                self._row.append(row)
                self._family.append(self._names.setdefault(family, len(self._names)))

    def finish(self) -> FamilyColumns:
        """The families of everything added."""
        return FamilyColumns(
            names=tuple(self._names),
            row=np.frombuffer(self._row, dtype=np.int64),
            family=np.frombuffer(self._family, dtype=np.int64),
        )
