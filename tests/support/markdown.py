"""Markdown as those who show it take it: what comes alive, and what stays a name."""

from markdown_it import MarkdownIt
from markdown_it.token import Token


def parsed(markdown: str) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(markdown)


def names_in(token: Token) -> list[str]:
    """The names that a block shows as code, once no HTML, link or emphasis has come alive in it."""
    shown = []
    for child in token.children or []:
        assert child.type not in ("link_open", "image", "em_open")
        if child.type == "html_inline":
            assert child.content in ("<sub>", "</sub>")
        if child.type == "code_inline":
            shown.append(child.content)
    return shown


def code_spans(markdown: str) -> list[str]:
    """The names it shows, once its tables hold and no HTML, link or emphasis has come alive."""
    shown = []
    tokens = parsed(markdown)
    widths: list[int] = []
    for token in tokens:
        if token.type == "tr_open":
            widths.append(0)
        elif token.type in ("th_open", "td_open"):
            widths[-1] += 1
        assert token.type != "html_block"
        shown += names_in(token)
    assert widths
    heads = [line.count("---") for line in markdown.splitlines() if line.startswith("| ---")]
    assert len(heads) == sum(token.type == "table_open" for token in tokens)
    assert set(widths) <= set(heads)
    return shown
