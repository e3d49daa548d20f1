"""What a suite says of its agent; the keys are defined here, once."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

# Names become folders: nothing in them may leave one, and none of them is hidden.
Slug = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*$", max_length=100, description="a name")
]
Text = Annotated[str, Meta(min_length=1)]
# The environment of a trial has few names, all of them portable.
Variable = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=200)]

NO_FORMAT = "none"


class Program(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The agent of every arm."""

    program: Text
    model: Text | None = None
    args: tuple[str, ...] = ()
    env: dict[Variable, str] = {}
    home: dict[Text, Text] = {}
    secrets: tuple[Variable, ...] = ()
    mounts: tuple[Text, ...] = ()
    network: Text | None = None
    argv: tuple[Text, ...] = ()
    output: Slug | None = None
    format: Text | None = None
    # Not in schedules that lack them, so that the digests of older ones stay what they are.
    scorer: Text | UnsetType | None = UNSET
    threshold: float | UnsetType | None = UNSET
