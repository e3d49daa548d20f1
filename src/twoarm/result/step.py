"""Step: one thing to do next."""

import msgspec

from twoarm.text.sentence import Sentence, say


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to do next; programs go by its code, people by its message."""

    code: str
    message: Sentence


def step(code: str, template: str, *values: object) -> Step:
    """A step whose message has a value in place of each `{}`."""
    return Step(code=code, message=say(template, *values))
