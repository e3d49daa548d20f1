"""Requests to one host: no redirect is followed, and limits are waited for, within reason."""

import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.message import Message
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import msgspec

from twoarm._version import __version__
from twoarm.errors import UsageError
from twoarm.text.escape import shortened, visible

_TRIES = 5
_TIMEOUT_SECONDS = 30.0
# Whoever asks for more is not waited for, and neither is anybody in the end.
LONGEST_WAIT_SECONDS = 60.0
_LARGEST_ANSWER = 20_000_000
# Of a refusal, enough to see why.
_LARGEST_REFUSAL = 65_536
_QUOTED = 200
_REFUSED = (401, 403, 404)
_EXAMPLE = "https://api.github.com"
# Nobody is there, or what they say cannot be read.
_NO_ANSWER = (OSError, HTTPException, UnicodeError, msgspec.DecodeError, RecursionError)


class ForgeError(Exception):
    """A forge did not do what it was asked to; the report itself is as good as before."""


class TokenRefusedError(ForgeError):
    """The token may not do that: a fork has one that only reads, and some jobs have none."""


class UnansweredError(ForgeError):
    """Something may have been made, and nobody has said so: look before you make it again."""


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *ignored: Any) -> None:
        """The token is for one host."""


class Caller:
    """What may be asked of one host, with one token."""

    def __init__(self, api: str, token: str, headers: Mapping[str, str]) -> None:
        if not _is_address(api):
            raise UsageError(f"{visible(api)}: expected the address of an API, such as {_EXAMPLE}")
        parts = urlsplit(api)
        self._token = token
        self._host = f"{parts.scheme}://{parts.netloc}"
        # What comes before every path.
        self.prefix = parts.path.rstrip("/")
        self._headers = {
            "User-Agent": f"twoarm/{__version__}",
            "Content-Type": "application/json",
            **headers,
        }
        self._opener = build_opener(_NoRedirect)

    def call(
        self, method: str, path: str, body: object = None, *, repeatable: bool | None = None
    ) -> Any:
        """The answer as plain values; what makes something is not repeated unless it says so."""
        repeatable = method != "POST" if repeatable is None else repeatable
        what = f"{method} {path.partition('?')[0]}"
        content = None if body is None else msgspec.json.encode(body)
        why = ""
        for attempt in range(_TRIES):
            wait = min(LONGEST_WAIT_SECONDS, 2.0**attempt) * random.uniform(1.0, 1.25)
            try:
                return self._answer(method, path, content)
            except HTTPError as error:
                told = _told(error)
                why = f"{what}: {error.code} {self._quoted(told)}"
                if is_limited(error.code, error.headers, told):
                    wait = asked_wait(error.headers, wait)
                    if wait > LONGEST_WAIT_SECONDS:
                        raise ForgeError(f"{what}: try again in {wait:.0f} s") from None
                elif error.code in _REFUSED:
                    raise TokenRefusedError(why) from None
                elif error.code < 500:
                    raise ForgeError(why) from None
                elif not repeatable:
                    raise UnansweredError(why) from None
            except _NO_ANSWER as error:
                why = f"{what}: {self._quoted(str(error))}"
                if not repeatable:
                    raise UnansweredError(why) from None
            if attempt < _TRIES - 1:
                self.wait(wait)
        raise ForgeError(f"{why}, {_TRIES} times")

    def _answer(self, method: str, path: str, content: bytes | None) -> Any:
        request = Request(self._host + path, content, dict(self._headers), method=method)
        with self._opener.open(request, timeout=_TIMEOUT_SECONDS) as answer:
            text = answer.read(_LARGEST_ANSWER)
        return msgspec.json.decode(text) if text else None

    def _quoted(self, told: str) -> str:
        """What others said, in short; whoever repeats the token is not repeated."""
        return shortened(told.replace(self._token, "***"), _QUOTED)

    def wait(self, seconds: float) -> None:
        """Let a moment pass before the next call."""
        time.sleep(seconds)


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        known = parts.hostname and parts.port != 0
    except ValueError:
        return False
    more = parts.username or parts.password or parts.query or parts.fragment
    plain = text.isascii() and text.isprintable() and " " not in text
    return bool(parts.scheme in ("http", "https") and known and plain and not more)


def _told(error: HTTPError) -> str:
    """What came with a refusal, as far as it came."""
    try:
        with error:
            return error.read(_LARGEST_REFUSAL).decode("utf-8", "replace")
    except (OSError, HTTPException):
        return ""


@contextmanager
def understood() -> Iterator[None]:
    """An answer that is not what it should be is no mistake of ours."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        told = visible(repr(error))
        raise ForgeError(f"an unexpected answer: {told}") from error


def is_limited(status: int, headers: Message, told: str) -> bool:
    """Whether the host wants to be asked less often; some say that with a 403."""
    return status == 429 or (
        status == 403
        and (
            "retry-after" in headers
            or headers.get("x-ratelimit-remaining") == "0"
            or "rate limit" in told.lower()
        )
    )


def asked_wait(headers: Message, otherwise: float) -> float:
    """How many seconds the host asks for; at least one, so that nobody is asked at once again."""
    after, reset = headers.get("retry-after", ""), headers.get("x-ratelimit-reset", "")
    if after.isascii() and after.isdigit():
        return max(1.0, float(after))
    if after:
        try:
            return max(1.0, parsedate_to_datetime(after).timestamp() - time.time())
        except (ValueError, OverflowError):
            return otherwise
    if headers.get("x-ratelimit-remaining") == "0" and reset.isascii() and reset.isdigit():
        return max(1.0, float(reset) - time.time())
    return otherwise
