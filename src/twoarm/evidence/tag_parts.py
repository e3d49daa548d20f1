"""What the tags of tasks show, as plain data."""

from typing import Literal

import msgspec


class TagChange(msgspec.Struct, frozen=True, kw_only=True):
    """The change of one metric over the `tasks` with a tag that both arms have it in.

    `families` is how many these are of, null where no two of all tasks are of one.
    `ratio` says whether it is a ratio, of which 1 is no change. `low` and `high` are the ends of an
    interval that allows for all tags and metrics; `scope` is what it is for, and `withheld` says
    why there is none. It is better or worse only if the interval says so.
    """

    tasks: int
    families: int | None
    ratio: bool
    estimate: float | None
    scope: Literal["these_tasks", "tasks_like_these"]
    low: float | None
    high: float | None
    withheld: str | None
    standing: Literal["better", "worse", "no clear difference", "no test"]


class TagEffect(msgspec.Struct, frozen=True, kw_only=True):
    """One tag, and what the tasks that have it show."""

    tag: str
    tasks: int
    changes: dict[str, TagChange]


class Tags(msgspec.Struct, frozen=True, kw_only=True):
    """The change by tag; a tag that all tasks have says nothing more than the whole.

    `names` counts the tags that only some tasks have; the `largest` are listed, and their
    `intervals` all hold at once at `level`, which is `level_of_each` of them.
    """

    names: int
    intervals: int
    level: float
    level_of_each: float
    largest: tuple[TagEffect, ...]
