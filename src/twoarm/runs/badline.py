"""What is wrong with a line that is not a run, down to the field or the column."""

import math
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from twoarm.errors import Position, Problem
from twoarm.runs.record import Line, explain
from twoarm.runs.stream import UTF8_MARK
from twoarm.text.escape import named, shortened, visible

# How many repeated keys of one line are listed.
_LISTED = 10
_TOKEN = re.compile(r'(?P<string>"[^"\\]*(?:\\.[^"\\]*)*")(?P<colon>[ \t\r]*:)?|[{}\[\]]')


class Repeated(NamedTuple):
    """A key that one object has twice, and the columns it stands at."""

    key: str
    first: int
    again: int


def problems_of(text: bytes, where: Position, error: Exception | None) -> list[Problem]:
    """Everything wrong with a line; at least one problem if a decoder raised `error`."""
    import json

    mistake = None
    try:
        line = text.decode()
        document = json.loads(line)
    except RecursionError:
        message = "nested too deeply to be a run"
    except UnicodeDecodeError as broken:
        mistake = "not UTF-8"
        message = f"not UTF-8 at byte {broken.start + 1}; save the file as UTF-8"
    except json.JSONDecodeError as broken:
        if text.startswith(UTF8_MARK):
            message = "starts with a byte order mark, which only a file may start with; remove it"
        else:
            mistake = "not one JSON object"
            reason = f"{broken.msg[0].lower()}{broken.msg[1:]}".removesuffix(" at")
            message = (
                f"not one JSON object: {reason} at column {broken.colno}; write one object per line"
            )
    except ValueError:
        message = "contains a number too large to read"
    else:
        problems = [
            *(_repeated(again, where) for again in islice(repeated_keys(line), _LISTED)),
            *explain(document, where),
            *_out_of_range(document, where),
        ]
        if problems or error is None:
            return problems
        message = f"not valid JSON ({error}); write one object per line"
        if isinstance(error, RecursionError):
            message = "nested too deeply to be a run"
    return [where.problem(visible(message), mistake=mistake)]


def repeated_keys(line: str) -> Iterator[Repeated]:
    """The keys that an object of the line, however deep, has more than once; the line is JSON."""
    import json

    objects: list[dict[str, int]] = []
    for token in _TOKEN.finditer(line):
        if token["colon"]:
            string = token["string"]
            key = json.loads(string) if "\\" in string else string[1:-1]
            column = token.start() + 1
            first = objects[-1].setdefault(key, column)
            if first != column:
                yield Repeated(key, first, column)
        elif token[0] in "{[":
            objects.append({})
        elif token[0] in "}]":
            objects.pop()


def _repeated(again: Repeated, where: Position) -> Problem:
    message = (
        f"key {named(again.key)} given twice in one object, at columns {again.first} and "
        f"{again.again}; keep one"
    )
    return where.problem(message)


def _out_of_range(document: object, where: Position) -> list[Problem]:
    """Numbers that no double holds, under keys that may hold anything."""
    if not isinstance(document, Mapping):
        return []
    free = [key for key in document if key == "tags" or key not in Line.__struct_fields__]
    message = "contains a number too large for a double; write it as a string or leave it out"
    return [
        where.problem(message, shortened(key, 60)) for key in free if _holds_infinity(document[key])
    ]


def _holds_infinity(value: Any) -> bool:
    remaining = [value]
    while remaining:
        value = remaining.pop()
        if isinstance(value, dict):
            remaining.extend(value.values())
        elif isinstance(value, list):
            remaining.extend(value)
        elif isinstance(value, float) and math.isinf(value):
            return True
    return False
