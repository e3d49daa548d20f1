"""The terminal that a report is printed on: its width, and the colors it can show."""

import os
import sys
from collections.abc import Callable

_USUAL_WIDTH = 80


def terminal_width() -> int:
    """The columns of standard output: what COLUMNS says, else those of the terminal, else 80."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdecimal() and 0 < int(columns) < 10_000:
        return int(columns)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or _USUAL_WIDTH
    except (OSError, ValueError):
        # A file, a pipe, or something in this process that stands in for the stream.
        return _USUAL_WIDTH


def terminal_paint() -> Callable[[str, str], str] | None:
    """Color for a terminal that wants it; rich is not imported for anything else."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return None
    from rich.color import ColorSystem
    from rich.console import Console
    from rich.style import Style

    if Console().color_system is None:
        return None
    styles = {
        "strong": Style(bold=True),
        "good": Style(color="green", bold=True),
        "bad": Style(color="red", bold=True),
        "faint": Style(dim=True),
    }

    def paint(role: str, text: str) -> str:
        style = styles.get(role)
        return style.render(text, color_system=ColorSystem.STANDARD) if style else text

    return paint
