"""Standard output and standard error: every byte is written, or the exit code says it was not.

What goes to a terminal is in its encoding, with escapes for what it cannot show; data is UTF-8.
"""

import os
import sys
from typing import TextIO

from twoarm.errors import OutputError
from twoarm.files.write import write_all
from twoarm.text.escape import inert_lines, visible_lines


class Streams:
    """The two streams of one command, and what became of them."""

    def __init__(self) -> None:
        # A descriptor that the caller closed would go to the next file that is opened.
        self._closed = {name for name in ("stdin", "stdout", "stderr") if _reopened(name)}
        self._unwritten: str | None = None
        self._unread: str | None = None
        self._failed = False

    def write(self, text: str) -> None:
        """Text for a reader, to standard output."""
        text = inert_lines(text)
        self._put_out(text.encode(sys.stdout.encoding or "utf-8", "backslashreplace"), text)

    def write_data(self, text: str) -> None:
        """Text for a program, to standard output: UTF-8 in any locale."""
        self._put_out(text.encode("utf-8", "backslashreplace"), text)

    def say(self, text: str) -> None:
        """Lines for a reader, to standard error."""
        self.command(inert_lines(visible_lines(text)))

    def command(self, text: str) -> None:
        """Lines to standard error as they are: a runner may take them for commands."""
        text = f"{text}\n"
        if "stderr" in self._closed:
            self._unwritten = self._unwritten or "standard error"
            return
        try:
            data = text.encode(sys.stderr.encoding or "utf-8", "backslashreplace")
            _put(sys.stderr, data, text)
        except BrokenPipeError:
            self._unread = self._unread or "standard error"
            _silence(sys.stderr)
        except OSError:
            self._failed = True
            _silence(sys.stderr)

    def settled(self, code: int, *, bad: int, gate: bool) -> int:
        """The exit code, which is not 0 if something did not reach its reader.

        A reader that has seen enough of a report is no mistake; of a verdict it must be all.
        """
        if not code and self._unwritten is not None:
            self.say(f"twoarm: cannot write to {self._unwritten}: it is closed")
            return bad
        if not code and gate and self._unread is not None:
            self.say(
                f"twoarm: nobody read all of {self._unread}; this does not count as a promotion"
            )
            return bad
        return bad if self._failed else code

    def _put_out(self, data: bytes, text: str) -> None:
        if "stdout" in self._closed:
            self._unwritten = "standard output"
            return
        try:
            _put(sys.stdout, data, text)
        except BrokenPipeError:
            self._unread = "standard output"
            _silence(sys.stdout)
        except OSError as error:
            _silence(sys.stdout)
            raise OutputError(f"cannot write to standard output: {error.strerror}") from error


def _put(stream: TextIO, data: bytes, text: str) -> None:
    """Bypass Python's layers, which may drop what a descriptor does not take at once."""
    stream.flush()
    try:
        descriptor = stream.fileno()
    except OSError:
        # Something in this process that stands in for the standard stream.
        stream.write(text)
        return
    write_all(descriptor, data)


def _reopened(name: str) -> bool:
    """Whether the caller had closed the stream; if so, it leads nowhere now."""
    if getattr(sys, name) is not None:
        return False
    mode = "r" if name == "stdin" else "w"
    setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    return True


def _silence(stream: TextIO) -> None:
    """Discard whatever is still written: Python would complain again when it closes the stream."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
