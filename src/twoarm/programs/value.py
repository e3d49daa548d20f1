"""Values inside documents of other programs: where they are, and how they are spelled."""

from collections.abc import Mapping
from typing import Any

import msgspec

NOTHING = object()


def as_text(value: object) -> str:
    """A value as the arm map spells it: text as it is, all else as compact JSON."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value, order="deterministic").decode()
    except (TypeError, ValueError):
        return str(value)


def at_path(document: Any, key: str) -> Any:
    """The value at a path: `a.b.0`; a key that holds dots itself is found as it is; or NOTHING."""
    if isinstance(document, Mapping) and key in document:
        return document[key]
    value = document
    for part in key.split("."):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isascii() and part.isdigit() and len(part) < 9:
            if int(part) >= len(value):
                return NOTHING
            value = value[int(part)]
        else:
            return NOTHING
    return value
