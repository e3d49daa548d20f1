"""The terminal that a report is printed on: its width, and the colors it can show."""

import os
import sys
from collections.abc import Callable


def terminal_width() -> int:
    """The columns of the terminal; 80 when the output is piped."""
    if not sys.stdout.isatty():
        return 80
    from shutil import get_terminal_size

    return get_terminal_size((80, 24)).columns


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
