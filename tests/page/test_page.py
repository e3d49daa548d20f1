"""The page as a file: what is in it, what it may load, and what it says of itself."""

import json
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from playwright.sync_api import Browser

import twoarm as package
from tests.conftest import both, lines, twoarm
from tests.support.effect_runs import suite
from tests.support.report_pages import HOSTILE, hostile, many, opened, page_of
from twoarm.render import html as renderer
from twoarm.render.page.provenance import command, facts
from twoarm.text.escape import html_script

MEGABYTE = 1_000_000


def test_500_tasks_stay_small_and_are_all_there(chromium: Browser, tmp_path: Path) -> None:
    assert len(page_of("demo").encode()) < 2 * MEGABYTE
    assert len(page_of("500 tasks").encode()) < 5 * MEGABYTE
    with opened(chromium, tmp_path, "500 tasks") as shown:
        assert shown.marks("delta-duration_seconds", "means") == 500
        assert shown.marks("delta-duration_seconds", "spans") == 500
        assert shown.marks("success", "candidates") == 500
        assert 100 < shown.marks("timeline", "starts") <= 240
        assert shown.page.locator("#tasks tbody tr").count() == 500
        text = shown.page.locator("#tasks-chart").inner_text()
        assert "from the smallest to the largest of its pairs (5,000 in all)" in text


def test_the_policy_allows_what_is_in_the_file_and_nothing_else(
    chromium: Browser, tmp_path: Path
) -> None:
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page_of("demo"))
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert "http" not in policy
    with opened(chromium, tmp_path, "demo") as shown:
        shown.page.evaluate(
            "const one = document.createElement('script'); one.textContent = 'window.bad = 1';"
            "document.body.append(one)"
        )
        assert shown.page.evaluate("window.bad") is None
        assert any("Content Security Policy" in text for text in shown.complaints)


def test_the_words_of_the_page(
    golden: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1793520000")
    page = twoarm("demo", "--format", "html").out
    start, end = page.index("<main>"), page.index("</main>") + len("</main>\n")
    golden("demo.html", page[start:end])


def test_the_page_names_no_other_address_to_load() -> None:
    page = page_of("demo")
    body = page[: page.index('<script type="application/json"')]
    assert not re.search(r'(src|href)="(?!#)', body)
    assert "@import" not in body
    assert "url(" not in body


def test_without_scripts_the_words_and_tables_are_there(chromium: Browser, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(page_of("demo"), encoding="utf-8")
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(path.as_uri())
    text = page.locator("main").inner_text()
    context.close()
    assert "Scripts are off, so no chart is drawn." in text
    assert "prefer with_skelly" in text
    assert "Of 12 tasks, 4 succeed more often with the candidate" in text


def test_the_command_of_the_page_gives_the_same_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1793520000")
    name = "my runs; $(x).jsonl"
    Path(name).write_bytes(lines([*hostile(), hostile()[0]]))
    roles = [f"--candidate={HOSTILE[0]}", f"--baseline={HOSTILE[1]}"]
    given = ["score", name, *roles, "--duplicates", "first", "--missing", "zero", "--keep-infra"]
    page = twoarm(*given, "--format", "html").out
    (shown,) = re.findall(r"<pre><code>(.*?)</code></pre>", page)
    for escaped, character in (
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&#39;", "'"),
        ("&quot;", '"'),
        ("&amp;", "&"),
    ):
        shown = shown.replace(escaped, character)
    words = shlex.split(shown)
    assert words[0] == "twoarm"
    again = twoarm(*words[1:], "--format", "json").out
    assert again == twoarm(*given, "--format", "json").out


def test_the_page_says_what_it_was_made_from() -> None:
    page = twoarm("demo", "--format", "html").out
    sha256 = json.loads(twoarm("demo", "--format", "json").out)["inputs"][0]["sha256"]
    for said in (sha256, "example.jsonl, 240 runs", "<dt>seed</dt><dd>1</dd>", "twoarm 0.1.0"):
        assert said in page
    assert "The runs came from memory, so no command can read them again." in page_of("one pair")


def test_the_drawing_is_not_in_the_analysis_file() -> None:
    analysis = package.score(both())
    assert set(analysis.to_dict()) == set(package.Analysis.__struct_fields__)
    assert set(json.loads(analysis.to_json())) == set(package.Analysis.__struct_fields__)
    assert "comparison" not in analysis.to_dict()
    assert "comparison" not in json.loads(twoarm("schema", "analysis").out)["properties"]


def test_the_same_runs_give_the_same_page() -> None:
    runs = many(7, 3)
    assert package.score(runs).to_html() == package.score(runs[::-1]).to_html()


def test_a_page_without_its_extra_is_an_error_that_names_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # As before anything is cached, and without bundling the scripts again for the next test.
    monkeypatch.setattr(renderer, "_scripts", renderer._scripts.__wrapped__)
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    path = tmp_path / "runs.jsonl"
    path.write_bytes(lines(both()))
    message = "the page needs `vl_convert`: install twoarm with its extra `html`"
    with pytest.raises(package.TwoarmError, match=re.escape(message)):
        package.score(path).to_html()
    result = twoarm("score", str(path), "--format", "html")
    assert (result.code, result.out, result.err) == (2, "", f"twoarm: {message}\n")
    result = twoarm("score", str(path), "--out", str(tmp_path / "out"))
    assert result.code == 0
    assert sorted(one.name for one in (tmp_path / "out").iterdir()) == [
        "analysis.json",
        "analysis.md",
    ]
    assert f"twoarm: no report.html: {message}\n" in result.err


def test_the_page_needs_nothing_that_only_the_tests_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    assert "<svg" in package.score(both()).to_html()


def test_json_in_a_script_cannot_end_it() -> None:
    text = html_script(json.dumps({"name": "</script><!-- &amp; \u2028\u2029"}, ensure_ascii=False))
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == {"name": "</script><!-- &amp; \u2028\u2029"}


def test_only_arms_are_inferred_from_their_names() -> None:
    report = package.score(suite(6, 3))
    known = dict(facts(report))
    assert known["candidate"] == known["baseline"] == "inferred from the arm names"
    assert (known["primary"], known["looks"], known["keep infra"]) == ("none", "none", "no")
    report = package.score(suite(6, 3), looks=(2, 3))
    assert dict(facts(report))["looks"] == "2,3"
    named = msgspec.structs.replace(report.inputs[0], path="r.jsonl")
    report = msgspec.structs.replace(report, inputs=(named,))
    assert command(report) == "twoarm score r.jsonl --looks=2,3"
