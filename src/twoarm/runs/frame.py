"""Frames in memory, of pandas, polars, Arrow and others: their rows as run records.

narwhals reads them cell by cell. Arrow alone would not do: it refuses a pandas column of mixed
types as a whole, and a bad cell is to be reported with its row.
"""

import math
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Protocol, cast

import msgspec
import numpy as np

from twoarm.errors import ExtraError, UsageError, extra_needed
from twoarm.runs.record import Line, MaybeExitCode, MaybeNumber, MaybePart, Repeat

_ROWS = 4_096

_FIELDS = msgspec.structs.fields(Line)
# Columns that a frame may lack: they would hold nothing but nulls.
_NULLABLE = tuple(field.name for field in _FIELDS if field.required and field.type == MaybeNumber)
# pandas has no null in a column of whole numbers; it makes them floats.
_WHOLE = frozenset(
    field.name for field in _FIELDS if field.type in (Repeat, MaybeExitCode, MaybePart)
)


class ArrowFrame(Protocol):
    """Rows and columns that can be handed on as an Arrow stream."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


def is_frame(source: object) -> bool:
    """Whether it is a frame, or a column of one, by what it offers; no library is imported."""
    return hasattr(source, "__arrow_c_stream__") or hasattr(source, "__dataframe__")


def rows(frame: ArrowFrame) -> Iterator[dict[str, Any]]:
    """The rows as mappings; what is missing, NaN or null in them is None."""
    table = _opened(frame)
    names = [str(name) for name in table.columns]
    absent = dict.fromkeys(name for name in _NULLABLE if name not in names)
    for start in range(0, len(table), _ROWS):
        part = table[start : start + _ROWS]
        columns = [_cells(name, part[:, at]) for at, name in enumerate(names)]
        for cells in zip(*columns, strict=True):
            yield dict(zip(names, cells, strict=True)) | absent


def _opened(frame: ArrowFrame) -> Any:
    try:
        import narwhals.stable.v2 as narwhals
        from narwhals.exceptions import DuplicateError
    except ImportError as error:
        raise ExtraError(extra_needed("a frame", "narwhals", "frames")) from error
    try:
        return narwhals.from_native(cast(Any, frame), eager_only=True)
    except DuplicateError as error:
        raise UsageError("two columns of the frame have the same name; rename one") from error
    except TypeError:
        # Not a library that narwhals knows, but any Arrow stream will do.
        return _streamed(frame, narwhals.DataFrame)


def _streamed(frame: ArrowFrame, narwhals_frame: Any) -> Any:
    kind = type(frame).__name__
    try:
        return narwhals_frame.from_arrow(frame, backend="pyarrow")
    except ImportError as error:
        raise ExtraError(
            f"an Arrow stream (`{kind}`) needs `pyarrow`: pip install pyarrow"
        ) from error
    except (TypeError, ValueError) as error:
        raise UsageError(f"expected a frame with a column per key, got one `{kind}`") from error


def _cells(name: str, column: Any) -> list[Any]:
    """The values of a column as a record would spell them."""
    values = column.to_list()
    absent = column.is_null().to_list()
    whole = name in _WHOLE
    return [
        None if missing else _plain(value, whole=whole)
        for value, missing in zip(values, absent, strict=True)
    ]


def _plain(value: Any, *, whole: bool) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return int(value) if whole and value.is_integer() else value
    return value.isoformat() if isinstance(value, datetime) else value
