"""Hostile runs: nothing comes alive, no other file is read, and nothing grows without a limit."""

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.conftest import twoarm
from tests.support.collect_fixtures import copied, only
from tests.support.run_page_folders import (
    WITH,
    WITHOUT,
    call,
    claude,
    collect,
    folder,
    pages,
    say,
    score,
    shown,
    some_runs,
)

# What must not come alive anywhere.
HOSTILE = (
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    "</pre></section><a href='javascript:alert(1)'>x</a> \x1b[31mred\x1b[0m \u202eevil\u2066 "
    "\x00\x07"
    "</style><style>body{display:none}</style> <!-- ##[set-output] ::error::boom ]]> \ufffe"
)


@pytest.fixture
def some(tmp_path: Path) -> Path:
    return some_runs(tmp_path)


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
    assert score(hostile, "--run-pages", "all").code == 0
    (name,) = pages(hostile)
    path = hostile / "out" / "run-pages" / name
    with shown(chromium, path) as (page, complaints, asked):
        assert complaints == []
        assert asked == [path.as_uri()]
        assert page.title().startswith("<script>")
        assert page.locator("script, img, iframe, object, form, base").count() == 0
        assert page.locator("style").count() == 1
        policy = page.locator("meta[http-equiv]").get_attribute("content") or ""
        assert policy.startswith("default-src 'none'; style-src 'sha256-")
        assert page.evaluate("getComputedStyle(document.body).display") == "block"
        assert page.locator("section.run").count() == 2
        links = page.evaluate("[...document.links].map(a => a.getAttribute('href'))")
        assert links
        ours = ("index.html", name)
        assert all(link.startswith(("./", "../report.html")) or link in ours for link in links)
        # It is all there to be read, and nothing of it is hidden.
        text = page.locator("#candidate").inner_text()
        assert text.count("document.title='owned'") >= 7
        assert "\\u202e" in text
        assert "\u202e" not in text
        assert "\\x00" in text
    with shown(chromium, path.with_name("index.html")) as (page, complaints, _):
        assert complaints == []
        assert page.locator("script, img, iframe, object, form, base").count() == 0
        assert "document.title='owned'" in page.locator("body").inner_text()
        page.locator("section a").click()
        page.wait_for_url(path.as_uri())
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
    # There are no pages at all if no record has a path.
    for line in lines[way == "none" :]:
        line["run_path"] = target
    (some / "collected.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert score(some, "--run-pages", "all").code == 0
    for page in pages(some).values():
        assert SECRET not in page
        assert ("Nothing to show" in page) is (way != "folder link")
        assert ("not in the folder of the run file" in page) is (way in ("up", "absolute", "link"))
    assert SECRET not in twoarm("show", str(some), "one", "1").out


def test_a_long_run_is_cut_with_a_note_and_its_page_stays_small(tmp_path: Path) -> None:
    many = [call(f"c{n}", command=f"step {n} " + '"<&>' * 600) for n in range(3000)]
    results = {f"c{n}": {"content": '"' * 50_000} for n in range(0, 3000, 100)}
    for arm in (WITH, WITHOUT):
        place = folder(tmp_path, arm, "t", 1, claude(*many, say("The end."), results=results))
        (place / "acceptance.log").write_text("first\n" + "<x>" * 400_000 + "\nlast\n")
        (place / "diff.patch").write_text('+"' * 400_000)
        (place / "prompt.txt").write_text("&" * 400_000)
    collect(tmp_path)
    score(tmp_path, "--run-pages", "all")
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
from twoarm.commands.cli import main
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


# A line of each program that is repeated, and what in it is followed by a long output.
LONG = {
    "claude-code/real_ok": ("stream.jsonl", b'"tool_use_id":"toolu_0_0",'),
    "opencode/ok": ("events.jsonl", b'"metadata":{'),
    "codex/ok": ("rollout.jsonl", b'"payload":{"type":"item_completed"'),
}


@pytest.mark.parametrize("case", LONG)
def test_collecting_takes_no_memory_for_what_tools_gave_back(case: str, tmp_path: Path) -> None:
    place = copied(case, tmp_path)
    program = case.split("/", 1)[0]
    before = only(program, place)
    name, after = LONG[case]
    lines = (place / name).read_bytes().splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if after in line)
    long = b'"output":"' + b"x" * 10**6 + b'"'
    long = after + long + b"," if after[-1:] in b"{," else after + b"," + long
    lines[at:at] = [lines[at].replace(after, long)] * 40
    (place / name).write_bytes(b"".join(lines))
    tracemalloc.start()
    found = only(program, place)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 15e6
    # A line of opencode is a call of its own; the others tell of calls once more.
    more = 40 if program == "opencode" else 0
    assert found["tool_call_count"] == before["tool_call_count"] + more
    assert sum(found["tool_calls"].values()) == sum(before["tool_calls"].values()) + more
    same = ("success", "failure", "total_cost_usd", "input_tokens", "output_tokens")
    assert [found.get(key) for key in same] == [before.get(key) for key in same]
