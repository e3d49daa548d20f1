"""What a document has in place of what its types say, key by key."""

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec

from twoarm.programs.settings import Program, Slug, Text, Variable
from twoarm.run.suite import (
    Arm,
    ContainerMegabytes,
    CpuCount,
    Dollars,
    Limits,
    LimitSeconds,
    Megabytes,
    ProcessCount,
    RetryCount,
    SuiteTask,
    Workspace,
)
from twoarm.text.escape import series, value_in_words, visible

# What would do, by type.
_WORDS: dict[Any, str] = {
    Slug: "a name of letters, digits, dot, dash and underscore, at most 100",
    Text: "text that is not empty",
    Variable: "the name of an environment variable",
    LimitSeconds: "seconds above 0, at most a week",
    Dollars: "dollars above 0",
    RetryCount: "an integer from 0 to 100",
    Megabytes: "megabytes, from 1 to 100,000",
    ContainerMegabytes: "megabytes, from 6 to 100,000,000",
    CpuCount: "processors above 0, at most 1,000",
    ProcessCount: "an integer from 10 to 1,000,000",
    bool: "true or false",
    str: "text",
    float: "a number",
    dict: "a table",
    tuple: "an array",
}
# Where keys belong, by the name of the table.
_TABLES: dict[str, type[msgspec.Struct]] = {
    "agent": Program,
    "workspace": Workspace,
    "limits": Limits,
    "[[tasks]]": SuiteTask,
    "arms.NAME": Arm,
}


def mismatches(value: Any, kind: Any, key: str) -> Iterator[tuple[str, str]]:
    """Every key whose value is not of its type, and what would do."""
    kind = _without_none(kind, value)
    if kind is None:
        return
    inner = get_args(kind)
    origin = get_origin(kind)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield from _table(value, kind, key)
    elif origin is tuple and isinstance(value, list | tuple):
        for i, part in enumerate(value):
            yield from mismatches(part, inner[0], f"{key}[{i}]")
    elif origin is dict and isinstance(value, Mapping):
        for name, part in value.items():
            below = f"{key}.{name}"
            yield from mismatches(name, inner[0], below)
            yield from mismatches(part, inner[1], below)
    elif isinstance(value, str) and "\0" in value:
        yield key, "holds a null character, which no program takes"
    else:
        try:
            msgspec.convert(value, kind)
        except (msgspec.ValidationError, OverflowError) as error:
            words = _WORDS.get(kind) or _WORDS.get(origin) or visible(str(error))
            yield key, f"expected {words}, got {value_in_words(value, 'a table')}"


def _without_none(kind: Any, value: Any) -> Any:
    """The type inside an optional one; None if there is no value to look at."""
    if get_origin(kind) in (Union, UnionType):
        if value is None:
            return None
        return next(part for part in get_args(kind) if part is not type(None))
    return kind


def _table(value: Any, kind: type[msgspec.Struct], key: str) -> Iterator[tuple[str, str]]:
    if not isinstance(value, Mapping):
        yield key, f"expected a table, got {value_in_words(value)}"
        return
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    prefix = f"{key}." if key else ""
    for name in value:
        if name not in fields:
            yield f"{prefix}{name}", f"unknown key; {_way(str(name), fields)}"
    for name, field in fields.items():
        if name in value:
            yield from mismatches(value[name], field.type, f"{prefix}{name}")
        elif field.required:
            yield f"{prefix}{name}", "missing"


def _way(name: str, fields: Iterable[str]) -> str:
    """What was meant by a key that a table does not have."""
    homes = [
        table
        for table, kind in _TABLES.items()
        if any(field.name == name for field in msgspec.structs.fields(kind))
    ]
    if homes:
        return f"it belongs in {series(homes, 'or')}"
    near = get_close_matches(name, fields, 1)
    return f"did you mean `{near[0]}`?" if near else f"keys are {', '.join(fields)}"
