"""Which arm an attempt belongs to, as the user said it; and that an arm is one configuration."""

from collections.abc import Mapping
from typing import Any

import msgspec

from twoarm.errors import ArmsError, Position
from twoarm.options import either, option
from twoarm.programs.folder import SourceError
from twoarm.programs.format import Attempt, LeftOut
from twoarm.programs.value import NOTHING, as_text, at_path
from twoarm.text.escape import named, shortened, visible
from twoarm.text.sentence import listed

# How many values of an arm key are held, and how many are listed.
_MOST_VALUES = 1000
_LISTED_VALUES = 20
# A key with more parts than any source has is looked up without a type made for it.
_DEEPEST = 32


class ArmKey:
    """The key of the value inside the source that decides the arm, and the arm of each value."""

    def __init__(self, key: str, arms: Mapping[str, str]) -> None:
        self.key = key
        self.arms = arms
        # What was found: the values, and the arms that were asked for.
        self._values: set[str] = set()
        self._arms: set[str] = set()
        parts = key.split(".")
        named_parts = len(parts) <= _DEEPEST and all(part.isidentifier() for part in parts)
        self._decoder = msgspec.json.Decoder(_path_type(parts)) if named_parts else None

    def arm_of(self, attempt: Attempt) -> str | LeftOut:
        """The arm; a run of an arm that was not asked for is left out."""
        written = self._written(attempt)
        if written is NOTHING:
            raise self._missing(attempt)
        value = as_text(written)
        if len(self._values) < _MOST_VALUES:
            self._values.add(value)
        if value in self.arms:
            self._arms.add(self.arms[value])
        elif self.arms:
            why = f" whose {visible(self.key)} is {named(value)}, an arm that was not asked for"
            return LeftOut(noun="run", why=why)
        else:
            raise SourceError(
                attempt.where,
                f"{visible(self.key)} is {named(value)}, which {option('arm_map')} maps to no arm; "
                f"add {_mapped(value)}",
                mistake="no arm",
            )
        return self.arms[value]

    def check(self) -> None:
        """Refuse an arm that was asked for and has no run: its value may be mistyped."""
        for value, arm in self.arms.items():
            if arm not in self._arms and self._values:
                values = listed(sorted(self._values), _LISTED_VALUES)
                raise ArmsError(
                    f"{option('arm_map')}: no run for arm {named(arm)}: {visible(self.key)} is "
                    f"never {named(value)}; values found: {values}"
                )

    def _missing(self, attempt: Attempt) -> SourceError:
        message = f"no {named(self.key)} in it, so its arm is unknown"
        if isinstance(attempt.document, bytes):
            return SourceError(attempt.where, message)
        keys = listed(list(attempt.document), _LISTED_VALUES)
        return SourceError(attempt.where, f"{message}; found: {keys}", mistake=message)

    def _written(self, attempt: Attempt) -> Any:
        document = attempt.document
        if not isinstance(document, bytes):
            return at_path(document, self.key)
        try:
            if self._decoder is not None:
                value: Any = self._decoder.decode(document)
                while isinstance(value, _Below):
                    value = value.below  # type: ignore[attr-defined]
                if value is not msgspec.UNSET:
                    return value
        except (ValueError, RecursionError):
            # No object on the way, perhaps; then the whole document is needed.
            pass
        try:
            return at_path(msgspec.json.decode(document), self.key)
        except (ValueError, RecursionError) as error:
            raise SourceError(attempt.where, f"not JSON: {visible(str(error))}") from error


def _mapped(value: str) -> str:
    shown = shortened(value, 60)
    return either(flag=f"--arm-map {shown}=NAME", argument=f'`arm_map={{"{shown}": NAME}}`')


class _Below(msgspec.Struct):
    pass


def _path_type(parts: list[str]) -> Any:
    """A type that decodes what is at a path and skips the rest, which is most of a document."""
    shape: Any = Any
    for part in reversed(parts):
        field = ("below", shape | msgspec.UnsetType if shape is not Any else Any, msgspec.UNSET)
        shape = msgspec.defstruct("At", [field], bases=(_Below,), rename={"below": part})
    return shape


class Configurations:
    """What each arm was run with, so that a second configuration under one name is noticed."""

    def __init__(self, may_differ: tuple[str, ...]) -> None:
        self._may_differ = may_differ
        self._last: dict[tuple[str, str], tuple[tuple[str, Any], ...]] = {}
        self._known: dict[tuple[str, str, str], tuple[dict[str, str], Position]] = {}

    def difference(self, arm: str, attempt: Attempt) -> str | None:
        """How an attempt differs from those of its arm and scope before it; None if it does not."""
        group = (arm, attempt.scope)
        if self._last.get(group) == attempt.configuration:
            return None
        for key, value in attempt.configuration:
            if value is None:
                continue
            leaves = _leaves(key, value, attempt.where)
            known, where = self._known.setdefault((*group, key), (leaves, attempt.where))
            for leaf in sorted({*known, *leaves}):
                if known.get(leaf) != leaves.get(leaf) and not self._allowed(leaf):
                    return (
                        f"{attempt.where}: {visible(leaf)} is {_shown(leaves.get(leaf))}, but "
                        f"{_shown(known.get(leaf))} in {where}, both as arm {named(arm)}; "
                        f"split them into arms with {option('arm_key')}, or allow it with "
                        f"{_allowance(leaf)}"
                    )
        self._last[group] = attempt.configuration
        return None

    def _allowed(self, leaf: str) -> bool:
        return any(leaf == key or leaf.startswith(f"{key}.") for key in self._may_differ)


def _allowance(leaf: str) -> str:
    shown = visible(leaf)
    return either(flag=f"--may-differ {shown}", argument=f'`may_differ=["{shown}"]`')


def _shown(value: str | None) -> str:
    return "not set" if value is None else named(value)


def _leaves(key: str, value: Any, where: Position) -> dict[str, str]:
    """Every value below a key by its path; what is empty or null counts as absent."""
    if isinstance(value, bytes):
        try:
            value = msgspec.json.decode(value)
        except (ValueError, RecursionError) as error:
            raise SourceError(where, f"not JSON: {visible(str(error))}", key) from error
    leaves: dict[str, str] = {}
    waiting = [(key, value)]
    while waiting:
        at, value = waiting.pop()
        if isinstance(value, Mapping):
            waiting += [(f"{at}.{name}", below) for name, below in value.items()]
        elif value not in (None, []):
            leaves[at] = as_text(value)
    return leaves
