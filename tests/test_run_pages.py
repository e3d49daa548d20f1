"""From a number to a run: the pages of runs, the links to them, and the same in the terminal."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

import twoarm as library
from tests.conftest import run, twoarm
from twoarm.run_pages import page_name, plan_pages
from twoarm.transcript.entry import Event, cut, keep
from twoarm.transcript.view import RunView, Views, why

WITH, WITHOUT = "with_x", "without_x"
# What must not come alive anywhere.
HOSTILE = (
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    "</pre></section><a href='javascript:alert(1)'>x</a> \x1b[31mred\x1b[0m \u202eevil\u2066 "
    "\x00\x07"
    "</style><style>body{display:none}</style> <!-- ##[set-output] ::error::boom ]]> \ufffe"
)


def claude(*blocks: dict[str, Any], results: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """The stream of a run that says and calls some things."""
    lines: list[dict[str, Any]] = [
        {"type": "system", "subtype": "init", "session_id": "s", "model": "m"}
    ]
    for number, block in enumerate(blocks):
        usage = {"input_tokens": 1000 + number, "output_tokens": 50}
        message = {"id": f"m{number}", "content": [block], "usage": usage}
        lines.append({"type": "assistant", "message": message})
        if block["type"] == "tool_use":
            result = {"type": "tool_result", "tool_use_id": block["id"], "content": "done"}
            result |= (results or {}).get(block["id"], {})
            lines.append({"type": "user", "message": {"content": [result]}})
    done = {"type": "result", "subtype": "success", "result": "bye", "duration_ms": 1000}
    return [*lines, {**done, "usage": {"input_tokens": 1, "output_tokens": 2}}]


def say(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def call(id: str, tool: str = "Bash", **asked: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": tool, "input": asked}


def folder(root: Path, arm: str, task: str, repeat: int, lines: list[Any], code: int = 0) -> Path:
    """A run folder of Claude Code, as `twoarm run` leaves it."""
    place = (
        root
        / "runs"
        / arm
        / f"{len(os.listdir(root / 'runs' / arm)) if (root / 'runs' / arm).exists() else 0}"
    )
    place.mkdir(parents=True)
    (place / "stream.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    sidecar = {
        "task_id": task,
        "repeat": repeat,
        "acceptance_exit_code": code,
        "started_at_utc": "2026-11-15T06:00:00Z",
        "ended_at_utc": "2026-11-15T06:00:10Z",
    }
    (place / "run.json").write_text(json.dumps(sidecar))
    (place / "prompt.txt").write_text("Please do it.\n")
    (place / "acceptance.log").write_text("1 test failed\n" if code else "all tests passed\n")
    (place / "diff.patch").write_text("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+\tnew\n")
    return place


def collect(root: Path) -> Path:
    path = root / "collected.jsonl"
    arms = [f"--arm={arm}={root / 'runs' / arm}" for arm in (WITH, WITHOUT)]
    result = twoarm("collect", "claude-code", *arms, "-o", str(path))
    assert result.code == 0, result.err
    return path


@pytest.fixture
def some(tmp_path: Path) -> Path:
    """Two tasks, two repeats: one pair flipped to passed."""
    for task in ("one", "two"):
        for repeat in (1, 2):
            for arm in (WITH, WITHOUT):
                flips = (task, repeat, arm) == ("two", 2, WITHOUT)
                lines = claude(say(f"I am {arm}."), call("a", command="ls"), say(f"Done {repeat}."))
                # No two pairs differ alike, so that no dot hides another.
                lines[-1]["duration_ms"] = 1000 + 1000 * repeat**2 * (arm == WITH)
                folder(tmp_path, arm, task, repeat, lines, code=int(flips))
    collect(tmp_path)
    return tmp_path


def score(root: Path, *more: str) -> Any:
    out = str(root / "out")
    return twoarm("score", str(root / "collected.jsonl"), "--no-evidence", "--out", out, *more)


def pages(root: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in (root / "out" / "run-pages").iterdir()}


def test_all_runs_have_a_page_or_those_of_flips_or_none(some: Path) -> None:
    assert score(some).code == 0
    assert not (some / "out" / "run-pages").exists()
    result = score(some, "--runs", "all")
    assert f"twoarm: wrote 4 pages of runs to {some / 'out' / 'run-pages'}\n" in result.err
    assert set(pages(some)) == {page_name(task, n) for task in ("one", "two") for n in (1, 2)}
    # The pages of an earlier report go with it.
    score(some, "--runs", "flips")
    assert set(pages(some)) == {page_name("two", 2)}


def test_a_page_has_what_both_runs_did_and_why_they_count(some: Path) -> None:
    score(some, "--runs", "all")
    page = pages(some)[page_name("two", 2)]
    for text in (
        "I am with_x.",
        "I am without_x.",
        "<code>Bash</code>",
        "<pre>ls</pre>",
        "Done 2.",
        "Please do it.",
        "all tests passed",
        "1 test failed",
        "acceptance ended with exit code 1",
        "counts as failed",
        "+    new",
        "1,000 input, 50 output",
        'id="candidate"',
        'id="baseline"',
        "2: passed vs. failed",
        "1: passed vs. passed",
    ):
        assert text in page, text
    assert page.index('id="candidate"') < page.index('id="baseline"')
    # The pair that flipped comes first.
    assert page.index("2: passed vs. failed") < page.index("1: passed vs. passed")
    assert f'href="{page_name("two", 1)}"' in page
    assert 'href="./../../runs/with_x/3/stream.jsonl"' in page


def test_the_report_links_every_task_and_flips_come_first(some: Path) -> None:
    score(some, "--runs", "all")
    report = (some / "out" / "report.html").read_text()
    assert f'<a href="run-pages/{page_name("two", 2)}">two</a>' in report
    assert f'<a href="run-pages/{page_name("one", 1)}">one</a>' in report
    score(some, "--runs", "flips")
    report = (some / "out" / "report.html").read_text()
    assert f'<a href="run-pages/{page_name("two", 2)}">two</a>' in report
    assert "run-pages/one" not in report
    score(some, "--runs", "none")
    assert "run-pages" not in (some / "out" / "report.html").read_text()


def test_a_run_without_a_partner_has_a_page_of_its_own(some: Path) -> None:
    folder(some, WITH, "three", 1, claude(say("alone")))
    collect(some)
    score(some, "--runs", "all")
    page = pages(some)[page_name("three", 1)]
    assert "alone" in page
    assert 'id="baseline"' not in page


def test_pages_have_a_limit_and_flips_are_not_beyond_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twoarm.run_pages.MOST_PAGES", 2)
    found = [
        run(arm=arm, repeat=n, success=not (n == 9 and arm == "without_skelly"))
        for n in range(1, 10)
        for arm in ("with_skelly", "without_skelly")
    ]
    plan = plan_pages(library.score(found).comparison, "all")
    assert plan.wanted == 9
    assert [(page.repeat, page.flip) for page in plan.pages] == [(9, True), (1, False)]


@pytest.mark.parametrize(
    "task", ["../../x", "a/b", "", ".", "CON", "x" * 500, "é\u202e", "<script>"]
)
def test_no_task_chooses_the_name_of_a_file(task: str) -> None:
    name = page_name(task, 3)
    assert name.isascii()
    assert len(name) < 80
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")
    assert not name.startswith(".")
    assert page_name(task + "!", 3) != name


def test_a_folder_with_other_files_is_left_alone(some: Path) -> None:
    place = some / "out" / "run-pages"
    place.mkdir(parents=True)
    (place / "mine.txt").write_text("precious")
    result = score(some, "--runs", "all")
    assert result.code == 2
    assert (
        "mine.txt: not a file of twoarm; move it, or choose another folder by --out" in result.err
    )
    assert os.listdir(place) == ["mine.txt"]


def test_a_write_that_fails_leaves_the_old_pages(
    some: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    score(some, "--runs", "flips")
    before = pages(some)

    def broken(*given: Any) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("twoarm.run_pages.render", broken)
    result = score(some, "--runs", "all")
    assert result.code == 2
    assert "No space left on device" in result.err
    assert pages(some) == before
    assert sorted(os.listdir(some / "out")) == [
        "analysis.json",
        "analysis.md",
        "report.html",
        "run-pages",
    ]


def test_an_option_without_effect_is_refused(some: Path) -> None:
    path = str(some / "collected.jsonl")
    assert "--runs has no effect without --out" in twoarm("score", path, "--runs", "all").err
    result = twoarm("score", "-", "--out", str(some / "o"), "--runs", "all")
    assert "--runs needs run files" in result.err
    lines = [json.loads(line) for line in Path(path).read_text().splitlines()]
    more = [{**line, "arm": "third"} for line in lines if line["arm"] == WITH]
    Path(path).write_text("".join(json.dumps(line) + "\n" for line in [*lines, *more]))
    result = score(some, "--runs", "all", "--baseline", WITHOUT)
    assert "--runs makes pages for one candidate: name it with --candidate; found 2" in result.err


# Hostile runs ------------------------------------------------------------------------------------


@contextmanager
def shown(chromium: Browser, path: Path) -> Iterator[tuple[Page, list[str], list[str]]]:
    """A page in the browser, what it complained about, and what it asked for."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, offline=True)
    context.set_default_timeout(120_000)
    page = context.new_page()
    complaints: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(f"dialog {dialog.message}"))
    page.on("request", lambda request: asked.append(request.url))
    try:
        page.goto(path.as_uri())
        yield page, complaints, asked
    finally:
        context.close()


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A pair of which everything that a run can write is hostile, its names included."""
    for arm in (WITH, WITHOUT):
        lines = claude(
            say(HOSTILE),
            call("a", HOSTILE, command=HOSTILE),
            call("b", "Read", **{HOSTILE: [HOSTILE]}),
            {"type": "thinking", "thinking": HOSTILE},
            results={"a": {"content": HOSTILE, "is_error": True}},
        )
        place = folder(tmp_path, arm, HOSTILE.replace("\x00", ""), 1, lines, code=int(arm == WITH))
        for name in ("prompt.txt", "acceptance.log", "diff.patch", "stderr.log"):
            (place / name).write_bytes(HOSTILE.encode() + bytes(range(256)))
    collect(tmp_path)
    return tmp_path


def test_nothing_in_a_run_comes_alive_in_the_browser(hostile: Path, chromium: Browser) -> None:
    assert score(hostile, "--runs", "all").code == 0
    (name,) = pages(hostile)
    path = hostile / "out" / "run-pages" / name
    with shown(chromium, path) as (page, complaints, asked):
        assert complaints == []
        assert asked == [path.as_uri()]
        assert page.title().startswith("<script>")
        assert page.locator("script, img, iframe, object, form, base").count() == 0
        assert page.locator("style").count() == 1
        assert page.evaluate("getComputedStyle(document.body).display") == "block"
        assert page.locator("section.run").count() == 2
        links = page.evaluate("[...document.links].map(a => a.getAttribute('href'))")
        assert links
        assert all(link.startswith(("./", "../report.html")) or link == name for link in links)
        # It is all there to be read, and nothing of it is hidden.
        text = page.locator("#candidate").inner_text()
        assert text.count("document.title='owned'") >= 7
        assert "\\u202e" in text
        assert "\u202e" not in text
        assert "\\x00" in text
    with shown(chromium, hostile / "out" / "report.html") as (page, complaints, _):
        page.wait_for_selector("body[data-ready]")
        assert complaints == []
        assert page.title().startswith("twoarm")


def test_a_terminal_is_given_no_escape_and_no_command(hostile: Path) -> None:
    task = HOSTILE.replace("\x00", "")
    result = twoarm("show", str(hostile), task, "1")
    assert result.code == 0, result.err
    assert result.out.isprintable() or set(filter(lambda c: not c.isprintable(), result.out)) == {
        "\n"
    }
    assert "##[set-output]" not in result.out
    assert "document.title='owned'" in result.out


def test_a_dot_and_a_row_open_their_run(some: Path, chromium: Browser) -> None:
    path, out = str(some / "collected.jsonl"), str(some / "out")
    assert twoarm("score", path, "--out", out, "--runs", "all").code == 0
    with shown(chromium, some / "out" / "report.html") as (page, complaints, _):
        page.wait_for_selector("body[data-ready]")
        charts = page.evaluate("JSON.parse(document.getElementById('charts').textContent).charts")
        expected = {f"run-pages/{page_name(task, n)}" for task in ("one", "two") for n in (1, 2)}
        for chart, dataset, layer in (
            ("delta-duration_seconds", "pairs", "pairs"),
            ("spread-duration_seconds", "points", "points"),
            ("timeline", "starts", "starts"),
        ):
            spec = charts[chart]
            assert {row["url"] for row in spec["datasets"][dataset]} == expected
            (drawn,) = (one for one in spec["layer"] if one["name"] == layer)
            assert drawn["encoding"]["href"]["field"] == "url"
        for row in charts["delta-duration_seconds"]["datasets"]["pairs"]:
            assert row["url"].startswith(f"run-pages/{row['task']}-")
        for chart, dataset in (("success", "tasks"), ("delta-duration_seconds", "means")):
            for row in charts[chart]["datasets"][dataset]:
                first = 2 if row["task"] == "two" else 1
                assert row["url"] == f"run-pages/{page_name(row['task'], first)}"
        page.locator("#tasks tbody td a", has_text="two").click()
        page.wait_for_url("**/run-pages/two-*")
        assert page.locator("h1").inner_text() == "two, repeat 2"
        page.locator("nav a", has_text="Report").click()
        page.wait_for_url("**/report.html#tasks")
        page.wait_for_selector("body[data-ready]")
        page.locator("#chart-delta-duration_seconds .pairs_marks > *").first.click()
        page.wait_for_url("**/run-pages/*")
        assert complaints == []


SECRET = "root:x:0:0"


@pytest.mark.parametrize("way", ["up", "absolute", "link", "folder link", "gone", "null", "none"])
def test_a_record_names_no_file_outside_the_folder_of_its_file(some: Path, way: str) -> None:
    outside = some.parent / f"{some.name}-outside"
    outside.mkdir()
    (outside / "stream.jsonl").write_text(json.dumps(say(SECRET)) + "\n")
    (outside / "acceptance.log").write_text(SECRET)
    place = some / "runs" / WITH / "0"
    target = {
        "up": f"../{outside.name}/stream.jsonl",
        "absolute": str(outside / "stream.jsonl"),
        "link": "linked/stream.jsonl",
        "folder link": "runs/with_x/0/stream.jsonl",
        "gone": "runs/with_x/99/stream.jsonl",
        "null": "runs/\0/stream.jsonl",
        "none": None,
    }[way]
    if way == "link":
        (some / "linked").symlink_to(outside)
    if way == "folder link":
        (place / "acceptance.log").unlink()
        (place / "acceptance.log").symlink_to(outside / "acceptance.log")
    lines = [json.loads(line) for line in (some / "collected.jsonl").read_text().splitlines()]
    for line in lines:
        line["run_path"] = target
    (some / "collected.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert score(some, "--runs", "all").code == 0
    for page in pages(some).values():
        assert SECRET not in page
        assert ("Nothing to show" in page) is (way != "folder link")
    assert SECRET not in twoarm("show", str(some), "one", "1").out


# What is kept of a run ---------------------------------------------------------------------------


def test_a_long_run_is_cut_with_a_note_and_its_page_stays_small(tmp_path: Path) -> None:
    many = [call(f"c{n}", command=f"step {n} " + '"<&>' * 600) for n in range(3000)]
    results = {f"c{n}": {"content": '"' * 50_000} for n in range(0, 3000, 100)}
    for arm in (WITH, WITHOUT):
        place = folder(tmp_path, arm, "t", 1, claude(*many, say("The end."), results=results))
        (place / "acceptance.log").write_text("first\n" + "<x>" * 400_000 + "\nlast\n")
        (place / "diff.patch").write_text('+"' * 400_000)
        (place / "prompt.txt").write_text("&" * 400_000)
    collect(tmp_path)
    score(tmp_path, "--runs", "all")
    (page,) = pages(tmp_path).values()
    assert len(page.encode()) < 300_000
    assert "events left out; the files have them" in page
    assert "characters left out" in page
    assert "step 0 " in page
    assert "The end." in page
    assert "first\n" in page
    assert "last\n" in page
    assert "stream.jsonl</a>" in page


MEMORY = """
import resource, sys
from twoarm.cli import main
code = main(sys.argv[1:])
sys.stderr.write(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}")
sys.exit(code)
"""


def test_the_memory_that_a_run_takes_does_not_grow_with_its_output(some: Path) -> None:
    def show() -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-c", MEMORY, "show", str(some), "one", "1"],
            capture_output=True,
            text=True,
            check=True,
        )
        return int(done.stderr.rsplit("\n", 1)[-1]), done.stdout

    before, _ = show()
    event = claude(call("x", command="y" * 100_000))[1]
    with (some / "runs" / WITH / "0" / "stream.jsonl").open("a") as stream:
        for _ in range(2000):
            stream.write(json.dumps(event) + "\n")
        # A line that is longer than any event, and one without an end.
        stream.write('{"type":"' + "z" * 9 * 2**20 + '"}\n')
        stream.write(json.dumps(claude(say("last words"))[1]) + "\n")
    with (some / "runs" / WITH / "0" / "acceptance.log").open("wb") as log:
        log.truncate(3 * 2**30)
    after, text = show()
    assert after - before < 100
    assert "last words" in text
    assert "bytes, not shown" in text
    assert "3,221,2" in text.split("ACCEPTANCE")[1]


def test_what_is_cut_is_in_the_middle() -> None:
    found = cut("a" * 3000 + "b" * 3000, 600)
    assert (found.head, found.tail) == ("a" * 400, "b" * 200)
    assert found.left_out == 5400
    assert cut("short", 600) == cut("short")
    # A quote takes six bytes.
    assert len(cut('"' * 1000, 600).head) == 66


def test_the_first_and_the_last_events_are_kept() -> None:
    events = [Event(kind="message", text=f"{n} " + "x" * 1000) for n in range(1000)]
    found = keep(events)
    assert found.first[0].text.head.startswith("0 ")
    assert found.last[-1].text.head.startswith("999 ")
    assert len(found.first) + found.left_out + len(found.last) == 1000
    assert found.last_words is not None
    assert found.last_words.head.startswith("999 ")


def test_a_call_has_its_result_with_it_and_how_long_it_took() -> None:
    found = keep(
        [
            Event(kind="message", text="hi", at=100.0),
            Event(kind="call", id="a", tool="Bash", text="ls", at=101.0),
            Event(kind="call", id="b", tool="Read", text="x", at=101.5),
            Event(kind="result", id="b", text="no such file", failed=True, at=103.0),
            Event(kind="result", id="a", text="x", failed=False, at=104.5),
            Event(kind="result", id="never", text="?"),
        ]
    )
    shown = [
        (e.kind, e.tool, e.at, e.seconds, e.failed, e.result and e.result.head) for e in found.first
    ]
    assert shown == [
        ("message", "", 0.0, None, None, None),
        ("call", "Bash", 1.0, 3.5, False, "x"),
        ("call", "Read", 1.5, 1.5, True, "no such file"),
    ]


def test_pieces_of_a_message_are_one() -> None:
    pieces = [Event(kind="piece", text=text) for text in ("I ", "will ", "go.")]
    assert [e.text.head for e in keep(pieces).first] == ["I will go."]


# Why a run counts as it does ---------------------------------------------------------------------


def line(**keys: Any) -> Any:
    import msgspec

    from twoarm.record import OpenLine

    return msgspec.convert(run(**keys), OpenLine)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"success": True}, ["counts as passed"]),
        ({"success": False, "failure": None}, ["counts as failed"]),
        (
            {"success": True, "failure": "agent", "failure_reason": "time limit"},
            ["counts as failed: a failure of the agent: `time limit`"],
        ),
        ({"failure": "infra"}, ["excluded: an infra failure: `no reason given`"]),
        (
            {"acceptance_exit_code": 3, "uptake_count": 0},
            ["counts as passed", "acceptance ended with exit code 3", "uses of the change: 0"],
        ),
        (
            {"tags": ["cost_unknown", "of-my-own", 7]},
            [
                "counts as passed",
                "work was done but the cost is 0, so the cost is null, not 0",
                "tag `of-my-own`",
                "tag `7`",
            ],
        ),
    ],
)
def test_why_a_run_counts_as_it_does(keys: dict[str, Any], said: list[str]) -> None:
    assert [str(sentence) for sentence in why(line(**keys))] == said


# Every program -----------------------------------------------------------------------------------


def view(root: Path, name: str, lines: list[Any] | str, **keys: Any) -> RunView:
    text = lines if isinstance(lines, str) else "".join(json.dumps(one) + "\n" for one in lines)
    path = root / "run" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return Views().of(line(run_path=f"run/{name}", **keys), str(root))


def told(found: RunView) -> list[tuple[Any, ...]]:
    assert found.entries is not None
    return [
        (e.kind, e.tool, e.text.head, e.result and e.result.head, e.failed, e.seconds)
        for e in (*found.entries.first, *found.entries.last)
    ]


def test_opencode(tmp_path: Path) -> None:
    part = {
        "type": "tool",
        "tool": "bash",
        "state": {
            "status": "completed",
            "input": {"command": "ls"},
            "output": "x",
            "metadata": {"exit": 2},
            "time": {"start": 1000, "end": 3500},
        },
    }
    base = {"timestamp": 1000, "sessionID": "ses_1"}
    tokens = {"input": 7, "output": 5, "cache": {"read": 1, "write": 0}}
    lines = [
        {**base, "type": "text", "part": {"type": "text", "text": "hi"}},
        {**base, "type": "tool_use", "part": part},
        {**base, "type": "step_finish", "part": {"type": "step-finish", "tokens": tokens}},
        {**base, "type": "error", "error": {"name": "APIError", "data": {"message": "no"}}},
    ]
    found = view(tmp_path, "events.jsonl", lines)
    assert told(found)[:2] == [
        ("message", "", "hi", None, None, None),
        ("call", "bash", "ls", "x", True, 2.5),
    ]
    assert told(found)[2][0] == "note"
    assert found.entries is not None
    spend = found.entries.first[1].spend
    assert spend is not None
    assert spend.counts == (7, 5, 1, 0)


def test_codex_with_and_without_its_rollout(tmp_path: Path) -> None:
    items = [
        {"id": "1", "type": "agent_message", "text": "hi"},
        {
            "id": "2",
            "type": "command_execution",
            "command": "ls",
            "aggregated_output": "x",
            "exit_code": 1,
        },
        {
            "id": "3",
            "type": "mcp_tool_call",
            "server": "s",
            "tool": "t",
            "arguments": {"q": 1},
            "error": {"message": "no"},
            "status": "failed",
        },
    ]
    lines = [{"type": "thread.started", "thread_id": "t"}]
    lines += [{"type": "item.completed", "item": item} for item in items]  # type: ignore[dict-item]
    found = told(view(tmp_path, "events.jsonl", lines))
    assert found[:2] == [
        ("message", "", "hi", None, None, None),
        ("call", "command_execution", "ls", "x", True, None),
    ]
    assert found[2][:2] == ("call", "mcp__s__t")
    assert found[2][4] is True
    item = {
        "type": "CommandExecution",
        "command": ["bash", "-lc", "ls"],
        "aggregated_output": "x",
        "exit_code": 0,
    }
    payload = {
        "type": "item_completed",
        "item": item,
        "started_at_ms": 1000,
        "completed_at_ms": 1250,
    }
    rollout = {"timestamp": "2026-11-15T06:00:00Z", "type": "event_msg", "payload": payload}
    (tmp_path / "run" / "rollout.jsonl").write_text(json.dumps(rollout) + "\n")
    assert told(view(tmp_path, "events.jsonl", lines)) == [
        ("call", "command_execution", "ls", "x", False, 0.25)
    ]


def test_gemini_cli(tmp_path: Path) -> None:
    def at(second: int, kind: str, **keys: Any) -> dict[str, Any]:
        return {"type": kind, "timestamp": f"2026-11-15T06:00:{second:02}.000Z", **keys}

    lines = [
        at(0, "init", session_id="s", model="m"),
        at(0, "message", role="user", content="do it"),
        at(1, "message", role="assistant", content="I ", delta=True),
        at(1, "message", role="assistant", content="go.", delta=True),
        at(2, "tool_use", tool_name="run_shell_command", tool_id="a", parameters={"command": "ls"}),
        at(5, "tool_result", tool_id="a", status="success", output="x"),
    ]
    found = view(tmp_path, "stream.jsonl", lines)
    assert told(found) == [
        ("message", "", "I go.", None, None, None),
        ("call", "run_shell_command", "ls", "x", None, 3.0),
    ]
    assert found.prompt is not None
    assert found.prompt.head == "do it"


def test_mini_swe_agent_and_inspect_and_harbor(tmp_path: Path) -> None:
    action = {"command": "ls", "tool_call_id": "a"}
    messages = [
        {"role": "user", "content": "do it"},
        {"role": "assistant", "content": "ok", "extra": {"actions": [action], "timestamp": 10.0}},
        {
            "role": "tool",
            "content": "x",
            "tool_call_id": "a",
            "extra": {"returncode": 1, "timestamp": 12.0},
        },
    ]
    document = {"trajectory_format": "mini-swe-agent-1.1", "messages": messages}
    found = view(tmp_path / "mini", "t.traj.json", json.dumps(document))
    assert told(found) == [
        ("message", "", "ok", None, None, None),
        ("call", "bash", "ls", "x", True, 2.0),
    ]
    event = {
        "event": "tool",
        "function": "add",
        "arguments": {"x": 1},
        "result": "2",
        "timestamp": "2026-11-15T06:00:00Z",
        "completed": "2026-11-15T06:00:01Z",
    }
    log = {
        "version": 2,
        "status": "success",
        "eval": {},
        "samples": [{"uuid": "u", "input": "sum", "events": [event]}],
    }
    path = tmp_path / "inspect" / "run" / "log.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(log))
    seen = Views().of(line(run_path="run/log.json:sample 1", run_id="u"), str(tmp_path / "inspect"))
    assert told(seen) == [("call", "add", '{\n  "x": 1\n}', "2", False, 1.0)]
    step = {
        "source": "agent",
        "message": "ok",
        "tool_calls": [
            {"tool_call_id": "1", "function_name": "Bash", "arguments": {"command": "ls"}}
        ],
        "observation": {"results": [{"source_call_id": "1", "content": "x"}]},
    }
    place = tmp_path / "harbor" / "run"
    (place / "agent").mkdir(parents=True)
    (place / "agent" / "trajectory.json").write_text(json.dumps({"steps": [step]}))
    (place / "config.json").write_text("{}")
    seen = view(tmp_path / "harbor", "result.json", json.dumps({"trial_name": "t"}))
    assert told(seen)[1] == ("call", "Bash", "ls", "x", None, None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0\1\2" * 1000,
        "[1, 2]",
        "null",
        "not json",
        '{"type": "assistant", "message": 3}',
        '{"type": "assistant", "message": {"content": [1, {"type": "tool_use", "input": [[]]}]}}',
        "[" * 100_000,
    ],
)
@pytest.mark.parametrize(
    "head",
    [
        '{"type":"system","subtype":"init"}\n',
        '{"type":"init","timestamp":0}\n',
        '{"sessionID":"ses_1"}\n',
        '{"type":"thread.started"}\n',
        "",
    ],
)
def test_any_bytes_give_a_view(tmp_path: Path, head: str, text: str) -> None:
    for name in ("events.jsonl", "stdout.txt"):
        found = view(tmp_path / name, name, head + text)
        assert found.entries is not None


# In the terminal ---------------------------------------------------------------------------------


def test_show_prints_the_runs_of_both_arms(some: Path) -> None:
    for where in (some, some / "collected.jsonl"):
        result = twoarm("show", str(where), "two", "2")
        assert result.code == 0
        for text in (
            "two, repeat 2, with_x: passed\n",
            "two, repeat 2, without_x: failed\n",
            "PROMPT\n  Please do it.\n",
            "  2. Bash (1,001 input, 50 output tokens)\n     ls\n     ->\n     done\n",
            "LAST WORDS\n  Done 2.\n",
            "ACCEPTANCE\n  1 test failed\n",
            "CHANGE\n  --- a/x\n",
        ):
            assert text in result.out, text
    one = twoarm("show", str(some), "two", "2", "--arm", WITH)
    assert "without_x" not in one.out


def test_show_says_what_is_not_there(some: Path, tmp_path: Path) -> None:
    result = twoarm("show", str(some), "three", "1")
    assert (result.code, result.out) == (2, "")
    assert "no run of task `three`, repeat 1\n" in result.err
    (tmp_path / "empty").mkdir()
    assert "no collected.jsonl in it" in twoarm("show", str(tmp_path / "empty"), "t", "1").err
    assert "cannot be read" in twoarm("show", str(tmp_path / "nothing"), "t", "1").err
