"""Which arm an attempt belongs to, as the user said it; and that an arm is one configuration."""

from collections.abc import Mapping
from typing import Any

import msgspec

from twoarm.collect.folder import SourceError
from twoarm.collect.format import Attempt
from twoarm.errors import ArmsError, Position
from twoarm.escape import named, shortened, visible
from twoarm.options import either, option


def as_text(value: object) -> str:
    """A value as the arm map spells it: text as it is, all else as compact JSON."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value, order="deterministic").decode()
    except (TypeError, ValueError):
        return str(value)


# A key with more parts than any source has is looked up without a type made for it.
_DEEPEST = 32


class ArmKey:
    """The key of the value inside the source that decides the arm, and the arm of each value."""

    def __init__(self, key: str, arms: Mapping[str, str]) -> None:
        self.key = key
        self.arms = arms
        parts = key.split(".")
        named_parts = len(parts) <= _DEEPEST and all(part.isidentifier() for part in parts)
        self._decoder = msgspec.json.Decoder(_path_type(parts)) if named_parts else None

    def arm_of(self, attempt: Attempt) -> str:
        """The arm, or an error that names the value found."""
        found = self._found(attempt)
        if found is _NOTHING:
            raise SourceError(attempt.where, f"no {named(self.key)} in it, so its arm is unknown")
        value = as_text(found)
        if value not in self.arms:
            raise SourceError(
                attempt.where,
                f"{visible(self.key)} is {named(value)}, which {option('arm_map')} maps to no arm; "
                f"add {_mapped(value)}",
            )
        return self.arms[value]

    def _found(self, attempt: Attempt) -> Any:
        document = attempt.document
        if not isinstance(document, bytes):
            return _at(document, self.key)
        try:
            if self._decoder is not None:
                found: Any = self._decoder.decode(document)
                while isinstance(found, _Below):
                    found = found.below  # type: ignore[attr-defined]
                if found is not msgspec.UNSET:
                    return found
        except (ValueError, RecursionError):
            # No object on the way, perhaps; then the whole document is needed.
            pass
        try:
            return _at(msgspec.json.decode(document), self.key)
        except (ValueError, RecursionError) as error:
            raise SourceError(attempt.where, f"not JSON: {visible(str(error))}") from error


def _mapped(value: str) -> str:
    shown = shortened(value, 60)
    return either(flag=f"--arm-map {shown}=NAME", argument=f'`arm_map={{"{shown}": NAME}}`')


class _Below(msgspec.Struct):
    pass


def _path_type(parts: list[str]) -> Any:
    """A type that decodes what is at a path and skips all else, which is most of a document."""
    found: Any = Any
    for part in reversed(parts):
        field = ("below", found | msgspec.UnsetType if found is not Any else Any, msgspec.UNSET)
        found = msgspec.defstruct("At", [field], bases=(_Below,), rename={"below": part})
    return found


_NOTHING = object()


def _at(document: Any, key: str) -> Any:
    """The value at a path: `a.b.0`; a key that holds dots itself is found as it is."""
    if isinstance(document, Mapping) and key in document:
        return document[key]
    found = document
    for part in key.split("."):
        if isinstance(found, Mapping) and part in found:
            found = found[part]
        elif isinstance(found, list) and part.isascii() and part.isdigit() and len(part) < 9:
            if int(part) >= len(found):
                return _NOTHING
            found = found[int(part)]
        else:
            return _NOTHING
    return found


class Configurations:
    """What each arm was run with; a second configuration under one name is refused."""

    def __init__(self, may_differ: tuple[str, ...]) -> None:
        self._may_differ = may_differ
        self._last: dict[tuple[str, str], tuple[tuple[str, Any], ...]] = {}
        self._known: dict[tuple[str, str, str], tuple[dict[str, str], Position]] = {}

    def check(self, arm: str, attempt: Attempt) -> None:
        """Compare an attempt with those of its arm and scope before it."""
        group = (arm, attempt.scope)
        if self._last.get(group) == attempt.configuration:
            return
        for key, value in attempt.configuration:
            if value is None:
                continue
            leaves = _leaves(key, value, attempt.where)
            known, where = self._known.setdefault((*group, key), (leaves, attempt.where))
            for leaf in sorted({*known, *leaves}):
                if known.get(leaf) != leaves.get(leaf) and not self._allowed(leaf):
                    raise ArmsError(
                        f"{attempt.where}: {visible(leaf)} is {_shown(leaves.get(leaf))}, but "
                        f"{_shown(known.get(leaf))} in {where}, both as arm {named(arm)}; "
                        f"split them into arms with {option('arm_key')}, or allow it with "
                        f"{_allowance(leaf)}"
                    )
        self._last[group] = attempt.configuration

    def _allowed(self, leaf: str) -> bool:
        return any(leaf == key or leaf.startswith(f"{key}.") for key in self._may_differ)


def _allowance(leaf: str) -> str:
    shown = visible(leaf)
    return either(flag=f"--may-differ {shown}", argument=f'`may_differ=["{shown}"]`')


def _shown(value: str | None) -> str:
    return "not set" if value is None else named(value)


def _leaves(key: str, value: Any, where: Position) -> dict[str, str]:
    """Every value below a key by its path; what is empty or null is the same as not there."""
    if isinstance(value, bytes):
        try:
            value = msgspec.json.decode(value)
        except (ValueError, RecursionError) as error:
            raise SourceError(where, f"not JSON: {visible(str(error))}", key) from error
    leaves: dict[str, str] = {}
    waiting = [(key, value)]
    while waiting:
        at, found = waiting.pop()
        if isinstance(found, Mapping):
            waiting += [(f"{at}.{name}", below) for name, below in found.items()]
        elif found not in (None, []):
            leaves[at] = as_text(found)
    return leaves
