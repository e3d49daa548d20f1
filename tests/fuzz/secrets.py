"""Any secret, coded and wrapped in any way: no reader gets it out of what is kept.

Nor is anything else touched: with another value in its place, the text stays as it is. What is read
in small pieces gives what is read at once, and a line of JSON stays one.
"""

import io
import json
from random import Random

from tests.support.leaked_secrets import CODINGS, WRAPPINGS, leaks, wrapped
from twoarm.run.supervisor.redact import Redactor

SEEDS = 150
_WORD = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_KEY = _WORD + "-_"
_ODD = _WORD + "+/=\\\"'`$&<>%#{}[]()!?*;:,.|^~@ \u00fc\u00df\u20ac\u6f22\U0001f511"
_AROUND = _ODD + " \n\n\t"


def once(seed: int) -> None:
    """One secret in one text."""
    chance = Random(seed)
    kind = chance.choice((_short, _key, _odd, _padded, _pem, _words))
    secret, other = _distinct(kind(chance), kind(chance))
    coding, wrapping = chance.choice(list(CODINGS)), chance.choice(list(WRAPPINGS))
    before, after = (_text(chance, _AROUND, 0, chance.choice((5, 150))) for _ in range(2))
    case = f"{secret!r}, {coding}, {wrapping}, after {before!r}, before {after!r}"
    leaking = wrapped(wrapping, coding, before + secret + after)
    spared = wrapped(wrapping, coding, before + other + after)
    if leaking is None or spared is None:
        return
    secrets = (
        {"KEY": secret, "LONGER": secret + other} if chance.random() < 0.2 else {"KEY": secret}
    )
    redactor = Redactor(secrets, piece=chance.choice((7, 100, 1000)))
    assert leaks(leaking, secret), f"the reader does not read {case}"
    redacted = _copied(redactor, leaking)
    assert not leaks(redacted, secret), f"{case}: {redacted!r}"
    assert redacted == Redactor(secrets).content(leaking), f"pieces differ: {case}"
    assert redactor.holds(io.BytesIO(leaking)), case
    if "string" in wrapping:
        assert json.loads(redacted)["type"] == "text", case
    assert _copied(redactor, spared) == spared, f"touched for nothing: {case}"
    assert not redactor.holds(io.BytesIO(spared)), case


def _copied(redactor: Redactor, text: bytes) -> bytes:
    made = io.BytesIO()
    redactor.copy(io.BytesIO(text), made, len(text))
    return made.getvalue()


def _text(chance: Random, letters: str, least: int, most: int) -> str:
    return "".join(chance.choices(letters, k=chance.randint(least, most)))


def _short(chance: Random) -> str:
    return _text(chance, _WORD, 8, 10)


def _key(chance: Random) -> str:
    return "sk-" + _text(chance, _KEY, 20, 110)


def _odd(chance: Random) -> str:
    return "".join(chance.sample(_ODD, k=chance.randint(12, 40)))


def _padded(chance: Random) -> str:
    return f" {_text(chance, _ODD, 12, 20)}\n"


def _pem(chance: Random) -> str:
    lines = [_text(chance, _WORD + "+/", 64, 64) for _ in range(chance.randint(1, 12))]
    return "\n".join(("-----BEGIN PRIVATE KEY-----", *lines, "-----END PRIVATE KEY-----", ""))


def _words(chance: Random) -> str:
    words = ("correct", "horse", "battery", "staple", "red", "green", "key", "of", "my", "house")
    return chance.choice((" ", "-", "_")).join(chance.choices(words, k=chance.randint(4, 8)))


def _distinct(one: str, other: str) -> tuple[str, str]:
    return one, other if one.strip() not in other and other.strip() not in one else other[::-1]
