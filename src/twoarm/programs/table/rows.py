"""The rows of a table file: CSV, TSV, JSONL, a JSON array, or Parquet, each with its position."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from twoarm.errors import Position, Problem
from twoarm.programs.folder import LONGEST_LINE, Folder, SourceError, decoded
from twoarm.programs.table.parquet import read_rows
from twoarm.text.escape import named, value_in_words, visible

# A JSON document may be anything: in a folder it is not taken for a table.
SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet")
ARRAY = ".json"

Row: TypeAlias = Mapping[str, Any]

_OBJECT = msgspec.json.Decoder(dict[str, Any])
_ARRAY = msgspec.json.Decoder(list[Any])


def table_rows(folder: Folder, name: str) -> Iterator[tuple[Position, Row | Problem]]:
    """Every row, or what is wrong with it."""
    low = name.lower()
    if low.endswith(".parquet"):
        for number, row in read_rows(folder, name):
            yield folder.where(name, number), row
    elif low.endswith(".jsonl"):
        yield from _lines(folder, name)
    elif low.endswith(ARRAY):
        yield from _elements(folder, name)
    else:
        yield from _delimited(folder, name, "\t" if low.endswith(".tsv") else ",")


def of_one_shape(name: str) -> bool:
    """Whether all rows of the table have the same columns."""
    return not name.lower().endswith((".jsonl", ARRAY))


def _lines(folder: Folder, name: str) -> Iterator[tuple[Position, Row | Problem]]:
    for number, line in folder.lines(name):
        if line.strip():
            where = folder.where(name, number)
            try:
                yield where, decoded(line, _OBJECT, where)
            except SourceError as error:
                yield where, error.problem


def _elements(folder: Folder, name: str) -> Iterator[tuple[Position, Row | Problem]]:
    source = folder.where(name).source
    rows: list[Any] = folder.decode(name, _ARRAY)
    for number, row in enumerate(rows, 1):
        where = Position(f"{source}:row {number}")
        if isinstance(row, dict):
            yield where, row
        else:
            message = f"expected an object, got {value_in_words(row)}"
            yield where, where.problem(message, mistake="no object")


def _delimited(
    folder: Folder, name: str, delimiter: str
) -> Iterator[tuple[Position, Row | Problem]]:
    import csv

    csv.field_size_limit(LONGEST_LINE)
    lines = _texts(folder, name)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        head = next(reader, None)
        if not head:
            raise folder.refuse("empty; expected a row of column names", name)
        if len(set(head)) < len(head):
            twice = next(column for column, count in Counter(head).items() if count > 1)
            raise folder.refuse(f"two columns named {named(twice)}", name)
        for cells in reader:
            where = folder.where(name, reader.line_num)
            if not cells:
                continue
            if len(cells) != len(head):
                message = f"{len(cells)} cells in a table of {len(head)} columns"
                yield where, where.problem(message)
                continue
            values = (cell if cell != "" else None for cell in cells)
            yield where, dict(zip(head, values, strict=True))
    except csv.Error as error:
        where = folder.where(name, reader.line_num)
        raise SourceError(where, visible(str(error))) from error


def _texts(folder: Folder, name: str) -> Iterator[str]:
    for number, line in folder.lines(name):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            where = folder.where(name, number)
            raise SourceError(where, "not UTF-8; save the table as UTF-8") from error
        yield text + "\n"
