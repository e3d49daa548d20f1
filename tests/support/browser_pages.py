"""Pages in a real browser, and what they did there that they should not."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page

SCREENSHOTS = Path(__file__).parent.parent / "screenshots"


class Opened:
    """A page in the browser, and what it did that it should not."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: self.complaints.append(f"dialog {dialog.message}"))
        page.on("request", lambda request: self.requests.append(request.url))

    def marks(self, chart: str, layer: str) -> int:
        return self.page.locator(f"#chart-{chart} .{layer}_marks > *").count()

    def column(self, table: str, number: int) -> list[str]:
        return self.page.locator(f"#{table} tbody td:nth-child({number})").all_inner_texts()


def drawn(
    chromium: Browser, tmp_path: Path, html: str, *, width: int = 1280, scheme: Any = "light"
) -> Opened:
    """A page once it is drawn, without a network; its context is open until somebody closes it."""
    path = tmp_path / "report.html"
    path.write_text(html, encoding="utf-8")
    context = chromium.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
    )
    context.set_default_timeout(120_000)
    shown = Opened(context.new_page())
    try:
        shown.page.goto(path.as_uri())
        shown.page.wait_for_selector("body[data-ready]")
    except BaseException:
        context.close()
        raise
    return shown


@contextmanager
def browsed(chromium: Browser, tmp_path: Path, html: str, **look: Any) -> Iterator[Opened]:
    """A page once it is drawn, and nobody else's."""
    shown = drawn(chromium, tmp_path, html, **look)
    try:
        yield shown
    finally:
        shown.page.context.close()
