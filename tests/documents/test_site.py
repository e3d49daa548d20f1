"""The site as a reader has it: no link broken, no page too wide, search without a server."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import Browser

from tests.support.browser_pages import SCREENSHOTS
from tests.support.documents import DOCS, ROOT

# Made by Sphinx for its own ends.
OWN = {"genindex.html", "search.html"}


class Page(HTMLParser):
    """The places and links of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids |= {name for name in (given.get("id"), given.get("name")) if name}
        link = given.get("href") or given.get("src")
        if tag in ("a", "link", "script", "img") and link:
            self.links.append(link)


def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def test_every_document_is_on_the_site_and_in_its_index(site: Path) -> None:
    sources = {path.relative_to(DOCS).with_suffix("") for path in DOCS.rglob("*.md")}
    made = {path.relative_to(site).with_suffix("") for path in site.rglob("*.html")}
    assert sources == made - {Path(name).with_suffix("") for name in OWN}
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    for source in sources - {Path("index")}:
        assert re.search(rf"^{source}$|\({source}\.md", index, re.MULTILINE), source


def test_no_link_is_broken(site: Path) -> None:
    found = pages(site)
    broken = []
    for path, page in found.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            place = unquote(parts.fragment)
            known = target not in found or not place or place in found[target].ids
            if not target.is_file() or not known:
                broken.append(f"{path.name}: {link}")
    assert broken == []


def test_no_link_between_the_files_themselves_is_broken() -> None:
    """As they are read where no site is: the README, and the documents beside it."""
    broken = []
    files = [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]
    for path in files:
        for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (path.parent / parts.path).resolve() if parts.path else path.resolve()
            if not target.exists() or (parts.fragment and parts.fragment not in anchors(target)):
                broken.append(f"{path.name}: {link}")
    assert broken == []


def anchors(path: Path) -> set[str]:
    """The headings of a file, as GitHub spells them in links."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    heads = re.findall(r"^#+ (.*)$", text, flags=re.M)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", head).lower() for head in heads)
    return {re.sub(r"[^\w\- ]", "", head).strip().replace(" ", "-") for head in plain}


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for path, page in pages(site).items():
        text = path.read_text(encoding="utf-8")
        loaded = re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(https?:[^"]*)"', text)
        assert loaded == [], path
        assert page.links


# Words of code on more than one line, though they fit on one; a phone may break those in tables,
# except for codes of caveats, which people look for.
BROKEN_WORDS = """
() => [...document.querySelectorAll("code.literal .pre")].filter(word => {
  if (window.innerWidth < 800 && word.closest("td, th")
      && !word.closest("#caveats td:first-child")) return false;
  const range = document.createRange();
  range.selectNodeContents(word);
  const lines = new Set([...range.getClientRects()].map(each => Math.round(each.top)));
  return lines.size > 1 && word.textContent.length <= 28;
}).map(word => word.textContent)
"""

# Cells of which a part can be seen only by scrolling to the side.
CUT_OFF = """
() => [...document.querySelectorAll("#caveats td")].filter(cell =>
  cell.getBoundingClientRect().right > window.innerWidth).map(cell => cell.innerText)
"""
SHOWN = ("index", "ci", "run", "reference/caveats")


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_is_wider_than_its_screen_and_no_name_is_broken(
    chromium: Browser, site: Path, width: int, scheme: Any
) -> None:
    context = chromium.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
    )
    SCREENSHOTS.mkdir(exist_ok=True)
    try:
        page = context.new_page()
        wide, broken, cut_off = [], [], []
        for path in sorted(site.rglob("*.html")):
            page.goto(path.as_uri())
            if page.evaluate("document.documentElement.scrollWidth") > width:
                wide.append(path.name)
            broken += [(path.name, word) for word in page.evaluate(BROKEN_WORDS)]
            cut_off += page.evaluate(CUT_OFF)
            if path.relative_to(site).with_suffix("").as_posix() in SHOWN:
                page.screenshot(path=SCREENSHOTS / f"site-{path.stem}-{width}-{scheme}.png")
        assert (wide, broken, cut_off) == ([], [], [])
    finally:
        context.close()


def test_search_works_from_disk(chromium: Browser, site: Path) -> None:
    context = chromium.new_context(offline=True)
    try:
        page = context.new_page()
        page.goto(f"{(site / 'search.html').as_uri()}?q=uptake_contaminated")
        page.wait_for_selector("#search-results li a")
        assert "Caveats" in page.locator("#search-results").inner_text()
    finally:
        context.close()
