"""The command line: options, exit codes, files, pipes."""

import gzip
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

import twoarm as package
from tests.conftest import both, lines, run, twoarm
from twoarm.escape import columns, visible
from twoarm.options import flags_named

HOSTILE = [
    "a|b",
    "`tick`",
    "``two`` ticks`",
    "line\nbreak",
    "\x1b[31mred\x1b[0m",
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "@everyone #1 http://example.com",
    "--> ]]> &amp; \\ \\| *bold* _it_",
    "\u202eright to left",
    "漢字の課題",
    " ",
    "x" * 300,
]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(lines([one for repeat in range(1, 6) for one in both(repeat=repeat)]))
    return path


def command(*arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """The command line as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "twoarm", *arguments], capture_output=True, check=False, **options
    )


def test_score_prints_the_report_and_nothing_else(runs: Path) -> None:
    result = twoarm("score", str(runs))
    assert result.code == 0
    assert "DECISION   prefer with_skelly" in result.out
    assert result.err == ""


def test_score_reads_standard_input(runs: Path) -> None:
    result = command("score", "-", "--format", "json", input=runs.read_bytes())
    assert result.returncode == 0
    assert json.loads(result.stdout)["inputs"][0]["path"] == "<stdin>"
    bad = command("score", "-", input=b"[]\n")
    assert bad.returncode == 2
    assert bad.stderr.startswith(b"<stdin>:1: expected a JSON object, got an array\n")
    assert command("score", "-", "-", input=b"").returncode == 2


@pytest.mark.parametrize(
    ("candidate", "repeats", "code"),
    [
        ({}, 5, 0),
        ({"success": False}, 5, 1),
        ({"success": False, "duration_seconds": 999, "input_tokens": 9999}, 5, 1),
        ({}, 4, 3),
        ({"input_tokens": None}, 5, 3),
    ],
)
def test_gate_turns_the_promotion_into_an_exit_code(
    candidate: dict[str, Any], repeats: int, code: int, tmp_path: Path
) -> None:
    path = tmp_path / "runs.jsonl"
    made = [run("t", "with_skelly", r, **candidate) for r in range(1, repeats + 1)]
    made += [run("t", "without_skelly", r) for r in range(1, repeats + 1)]
    path.write_bytes(lines(made))
    assert twoarm("score", str(path), "--exit-code").code == code
    assert twoarm("score", "--exit-code", str(path)).code == code
    assert twoarm("score", str(path)).code == 0, "without --exit-code, done is done"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["score"],
        ["score", "missing.jsonl"],
        ["score", "x.jsonl", "--format", "yaml"],
        ["score", "x.jsonl", "--nonsense"],
        ["schema", "nothing"],
        ["frobnicate"],
    ],
)
def test_bad_usage_is_exit_code_2(arguments: list[str]) -> None:
    result = twoarm(*arguments)
    assert result.code == 2
    assert result.out == ""
    assert result.err


def test_bad_lines_are_listed_on_stderr_and_nothing_is_scored(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(lines(both()) + b"[]\n" + lines([run(repeat=0)]))
    result = twoarm("score", str(path))
    assert (result.code, result.out) == (2, "")
    listed = result.err.splitlines()
    assert listed[0] == f"{path}:3: expected a JSON object, got an array"
    assert listed[1].startswith(f"{path}:4: repeat: expected an integer from 1")
    assert listed[2] == "twoarm: 2 problems; nothing was scored"
    assert twoarm("score", str(path), "--skip-bad").code == 0


def test_check_lists_every_problem_on_stdout(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(b"[]\n" * 300)
    result = twoarm("check", str(path))
    assert result.code == 2
    assert len(result.out.splitlines()) == 300
    assert result.err == "twoarm: 300 problems\n"
    path.write_bytes(lines([*both(), run()]) + b"[]\n")
    result = twoarm("check", str(path))
    assert result.code == 2
    twice, bad = result.out.splitlines()
    assert twice.startswith(f"{path}:3: repeat: task `t`, arm `with_skelly`, repeat 1 was already")
    assert bad.startswith(f"{path}:4: expected a JSON object")
    with flags_named():
        assert [str(problem) for problem in package.check(path).problems] == [twice, bad]
    path.write_bytes(lines(both(extra=1)))
    result = twoarm("check", str(path))
    assert result.code == 0
    assert result.out.splitlines() == [
        "no problems: 2 runs, 1 task, arms `with_skelly`, `without_skelly`",
        "unknown key, ignored: `extra`",
    ]


def test_out_writes_every_file_and_says_so(runs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "results"
    result = twoarm("score", str(runs), "--out", str(folder))
    assert result.code == 0
    assert sorted(os.listdir(folder)) == ["analysis.json", "analysis.md", "report.html"]
    assert "DECISION" in result.out
    written_files = ", ".join(f"{folder}/{name}" for name in sorted(os.listdir(folder)))
    assert result.err == f"twoarm: wrote {written_files}\n"
    written = json.loads((folder / "analysis.json").read_text())
    assert written["schema"] == "twoarm.analysis/1"
    assert written["generated_at_utc"].endswith("Z")
    assert (folder / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert (folder / "analysis.md").read_text() == twoarm(
        "score", str(runs), "--format", "markdown"
    ).out


def test_out_that_fails_leaves_the_old_files_and_no_half_ones(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "results"
    assert twoarm("score", str(runs), "--out", str(folder)).code == 0
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    result = twoarm("score", str(runs), "--out", str(folder))
    assert result.code == 2
    assert result.err == (
        f"twoarm: {folder}/analysis.json: cannot be written: No space left on device\n"
    )
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    blocked = tmp_path / "file"
    blocked.write_text("here already")
    assert twoarm("score", str(runs), "--out", str(blocked)).code == 2
    assert blocked.read_text() == "here already"


def test_an_interrupt_while_writing_leaves_no_half_file(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    assert twoarm("score", str(runs), "--out", str(tmp_path / "results")).code == 130
    assert list((tmp_path / "results").iterdir()) == []


def test_a_closed_pipe_ends_quietly() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    process = subprocess.Popen(
        [sys.executable, "-m", "twoarm", "demo", "--runs"],
        stdout=writing,
        stderr=subprocess.PIPE,
    )
    os.close(writing)
    assert process.communicate(timeout=60)[1] == b""
    assert process.returncode == 0


def test_the_exit_code_is_the_gate_s_whatever_becomes_of_the_output(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    worse = {"success": False, "duration_seconds": 999, "input_tokens": 9999}
    path.write_bytes(
        lines(
            [
                one
                for repeat in range(1, 6)
                for one in (
                    run("t", "with_skelly", repeat, **worse),
                    run("t", "without_skelly", repeat),
                )
            ]
        )
    )
    reading, closed = os.pipe()
    os.close(reading)
    gate = [sys.executable, "-m", "twoarm", "score", "--exit-code", str(path)]
    try:
        broken = subprocess.run(gate, stdout=closed, stderr=subprocess.PIPE, check=False)
        assert broken.returncode == 1
        assert broken.stderr.startswith(b"twoarm: do not promote, by the gates: ")
        assert subprocess.run(gate, stdout=closed, stderr=closed, check=False).returncode == 1
        missing = [*gate[:-1], str(tmp_path / "none")]
        assert subprocess.run(missing, stdout=closed, stderr=closed, check=False).returncode == 2
    finally:
        os.close(closed)
    for streams in (">&-", "2>&-", ">&- 2>&- <&-"):
        shell = subprocess.run(
            ["sh", "-c", f'"$@" {streams}', "sh", *gate], capture_output=True, check=False
        )
        assert shell.returncode == 1, shell.stderr
        assert b"Traceback" not in shell.stderr
    with open("/dev/full", "wb") as full:
        filled = subprocess.run(gate, stdout=full, stderr=subprocess.PIPE, check=False)
    assert filled.returncode == 2
    with open("/dev/full", "wb") as full:
        helped = subprocess.run(
            [*gate[:3], "--help"], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert (helped.returncode, b"Traceback" in helped.stderr) == (2, False)
    assert filled.stderr == b"twoarm: cannot write to standard output: No space left on device\n"


def test_long_names_are_told_apart_and_keep_the_tables_narrow() -> None:
    arms = [f"my-coding-agent-2026.11-{word}-the-graph-rag-tool" for word in ("with", "plain")]
    made = [run("t", arm, repeat) for repeat in range(1, 6) for arm in arms]
    report = package.score(made, candidate=arms[0], baseline=arms[1])
    text = report.to_text(full=True, width=100)
    assert max(map(columns, text.splitlines())) <= 100
    heads = text.splitlines()[text.splitlines().index("Gates") + 1].split()
    assert [head[:5] for head in heads[:2]] == ["…with", "…plai"]
    made = [
        run(f"{'task-with-a-name-as-long-as-this-' * 3}{n}", arm, 1, duration_seconds=10_000.0 * n)
        for n in range(1, 4)
        for arm in ("difference", "old")
    ]
    made.append(run("alone", "old", 1))
    report = package.score(made, candidate="difference", baseline="old")
    text = report.to_text(full=True, width=100)
    assert max(map(columns, text.splitlines())) <= 100
    assert "  difference" in text
    assert "…difference" not in text


def test_schema_prints_both_schemas() -> None:
    for name in ("record", "analysis"):
        result = twoarm("schema", name)
        assert result.code == 0
        assert json.loads(result.out)["$schema"].endswith("2020-12/schema")


@pytest.mark.parametrize(
    ("arguments", "without"),
    [
        (["--version"], {"rich", "altair", "vl_convert", "scipy"}),
        (["score", "{runs}"], {"rich", "altair", "vl_convert"}),
        (["score", "{runs}", "--no-evidence"], {"rich", "altair", "vl_convert", "scipy"}),
    ],
)
def test_what_is_not_used_is_not_imported(
    arguments: list[str], without: set[str], runs: Path
) -> None:
    given = [argument.format(runs=runs) for argument in arguments]
    script = (
        "import sys; from twoarm.cli import main\n"
        f"main({given!r})\n"
        f"print(sorted({without!r} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert result.stdout.decode().splitlines()[-1] == "[]"


WITHOUT_EFFECT = [
    (["--level", "0.9", "--no-evidence"], "--level has no effect with --no-evidence"),
    (["--seed", "1", "--no-evidence"], "--seed has no effect with --no-evidence"),
    (["--resamples", "999", "--no-evidence"], "--resamples has no effect with --no-evidence"),
    (["--margin-success", "0.1", "--no-evidence"], "--margin-success has no effect with"),
    (["--margin-ratio", "0.1", "--no-evidence"], "--margin-ratio has no effect with"),
    (["--primary", "tokens", "--no-evidence"], "--primary has no effect with --no-evidence"),
    (["--guard", "none", "--no-evidence"], "--guard has no effect with --no-evidence"),
    (["--guard", "none"], "--guard has no effect without --promote-by evidence"),
    (["--guard", "all", "--promote-by", "margin"], "--guard has no effect without --promote-by ev"),
    (["--allow-broken", "1"], "--allow-broken has no effect without the guard of --promote-by ev"),
    (
        ["--promote-by", "evidence", "--guard", "none", "--allow-broken", "1"],
        "--allow-broken has no effect without the guard of --promote-by evidence",
    ),
    (["--interval", "headline", "--no-evidence", "--full"], "--interval has no effect with"),
    (["--promote-by", "evidence", "--no-evidence"], "--promote-by: "),
    (["--promote-by", "margin", "--no-evidence"], "--promote-by: "),
    (["--interval", "bootstrap"], "--interval has no effect without --full"),
    (["--interval", "headline"], "--interval has no effect without --full"),
    *(
        (["--interval", "bootstrap", "--format", name], "--interval has no effect without --full")
        for name in ("json", "html", "github")
    ),
    *(
        (["--full", "--format", name], f"--full has no effect with --format {name}")
        for name in ("json", "markdown", "html", "github")
    ),
]


@pytest.mark.parametrize(("given", "complaint"), WITHOUT_EFFECT)
def test_an_option_without_effect_is_an_error(
    given: list[str], complaint: str, runs: Path, tmp_path: Path
) -> None:
    for command_line in (["score", str(runs)], ["demo"]):
        result = twoarm(*command_line, *given)
        assert (result.code, result.out) == (2, "")
        assert result.err.startswith(f"twoarm: {complaint}")
        assert len(result.err.splitlines()) == 1


@pytest.mark.parametrize(
    "given",
    [
        ["--interval", "bootstrap", "--full"],
        ["--interval", "bootstrap", "--format", "markdown"],
        ["--interval", "bootstrap", "--format", "json", "--out", "{out}"],
        ["--level", "0.9"],
        ["--margin-success", "0.2", "--promote-by", "margin"],
        ["--margin-ratio", "0.2", "--promote-by", "margin"],
        ["--primary", "tokens"],
        ["--promote-by", "evidence", "--guard", "none"],
        ["--promote-by", "evidence", "--allow-broken", "1"],
        ["--promote-by", "gates", "--no-evidence"],
        ["--full", "--no-evidence"],
    ],
)
def test_an_option_with_an_effect_is_none(given: list[str], runs: Path, tmp_path: Path) -> None:
    given = [argument.format(out=tmp_path / "out") for argument in given]
    assert twoarm("score", str(runs), *given).code == 0


@pytest.mark.parametrize(
    "given",
    [
        ["--full"],
        ["--format", "json"],
        ["--out", "out"],
        ["--junit", "junit.xml"],
        ["--annotate"],
        ["--exit-code"],
        ["--promote-by", "gates"],
        ["--level", "0.9"],
        ["--no-evidence"],
    ],
)
def test_the_runs_of_the_example_are_printed_without_any_other_option(given: list[str]) -> None:
    result = twoarm("demo", "--runs", *given)
    assert (result.code, result.out) == (2, "")
    assert result.err == f"twoarm: {given[0]} has no effect with --runs\n"


@pytest.mark.parametrize("gone", [["--gate"], ["--gate", "evidence"], ["--rule", "margin"]])
def test_what_options_were_called_before_is_bad_usage(gone: list[str], runs: Path) -> None:
    assert twoarm("score", str(runs), *gone).code == 2


@pytest.mark.parametrize("number", [60, 80, 100, 120])
def test_the_report_is_as_wide_as_the_terminal(number: int, runs: Path) -> None:
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": "1", "COLUMNS": str(number)}
    process = subprocess.Popen(
        [sys.executable, "-m", "twoarm", "score", str(runs)], stdout=theirs, env=environment
    )
    os.close(theirs)
    seen = b""
    try:
        while block := os.read(ours, 4096):
            seen += block
    except OSError:
        pass
    os.close(ours)
    assert process.wait(60) == 0
    assert seen.decode().replace("\r\n", "\n") == package.score(runs).to_text(width=number)
    piped = command("score", str(runs), env=environment).stdout.decode()
    assert piped == package.score(runs).to_text(width=80), "a pipe has no width"


def test_a_terminal_gets_color_unless_it_asks_for_none(runs: Path) -> None:
    pty = pytest.importorskip("pty")

    def shown(**environment: str) -> bytes:
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "twoarm", "score", str(runs)],
            stdout=theirs,
            env={**os.environ, "TERM": "xterm", **environment},
        )
        os.close(theirs)
        seen = b""
        try:
            while block := os.read(ours, 4096):
                seen += block
        except OSError:
            pass
        os.close(ours)
        assert process.wait(60) == 0
        return seen

    environment = {"NO_COLOR": ""}
    colored = shown(**environment)
    assert b"\x1b[1mprefer with_skelly\x1b[0m" in colored
    assert b"PROMOTE    \x1b[1;32myes, by the gates: " in colored
    plain = shown(NO_COLOR="1")
    assert b"\x1b" not in plain
    assert plain.replace(b"\r\n", b"\n").decode() == twoarm("score", str(runs)).out


def scored_slowly(runs: Path, standard_error: int) -> bytes:
    """What standard output gets from a score whose input takes a while to come."""
    process = subprocess.Popen(
        [sys.executable, "-m", "twoarm", "score", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=standard_error,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    text = runs.read_bytes()
    process.stdin.write(text[:400])
    process.stdin.flush()
    time.sleep(2.0)
    process.stdin.write(text[400:])
    process.stdin.close()
    shown = process.stdout.read()
    process.stdout.close()
    assert process.wait(60) == 0
    return shown


def test_a_terminal_that_has_to_wait_sees_a_progress_bar(runs: Path) -> None:
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    shown = scored_slowly(runs, theirs)
    os.close(theirs)
    seen = b""
    try:
        while block := os.read(ours, 4096):
            seen += block
    except OSError:
        pass
    os.close(ours)
    assert b"starting" in seen or b"reading" in seen
    # The bar is taken away again, and the report is what it is without one.
    assert seen.rstrip().endswith((b"\x1b[2K", b"\x1b[?25h", b"\x1b[1A\x1b[2K"))
    assert shown.decode() == twoarm("score", str(runs)).out


def test_nothing_is_drawn_when_standard_error_is_piped(runs: Path) -> None:
    reading, writing = os.pipe()
    scored_slowly(runs, writing)
    os.close(writing)
    assert os.read(reading, 4096) == b""
    os.close(reading)


def test_progress_counts_the_bytes_of_all_files(runs: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl.gz"
    other.write_bytes(gzip.compress(lines(both("u"))))
    told: list[tuple[str, int, int | None]] = []
    package.score([runs, other], progress=lambda *said: told.append(said))
    total = runs.stat().st_size + other.stat().st_size
    assert told == [
        ("reading", runs.stat().st_size, total),
        ("reading", total, total),
        ("weighing the evidence", 0, None),
    ]
    told.clear()
    with runs.open("rb") as stream:
        package.score(stream, evidence=False, progress=lambda *said: told.append(said))
    assert told == [("reading", runs.stat().st_size, None)]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_cannot_break_any_output(name: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    candidate = f"{name} new"
    made = [run(name, candidate, 1), run(name, "old", 1), run(name, "old", 2, failure="infra")]
    made[2]["failure_reason"] = name
    made[0][f"key {name}"] = name
    path.write_bytes(lines(made))
    roles = [f"--candidate={candidate}", "--baseline=old"]
    for most, extra in ((80, []), (100, ["--full"])):
        text = twoarm("score", str(path), *roles, *extra)
        assert text.code == 0, text.err
        assert all(line.isprintable() for line in text.out.splitlines())
        assert max(map(columns, text.out.splitlines())) <= most
    again = json.loads(twoarm("score", str(path), *roles, "--format", "json").out)
    assert again["candidate"] == candidate
    assert again["tasks"][0]["task_id"] == name
    markdown = twoarm("score", str(path), *roles, "--format", "markdown").out
    shown = code_spans(markdown)
    if len(name) < 60 and name.strip():
        assert visible(name) in shown
        assert visible(candidate) in shown
    bad = tmp_path / "bad.jsonl"
    bad.write_bytes(lines([run(name, candidate, 1, success=name)] * 2))
    result = twoarm("check", str(bad))
    assert all(line.isprintable() for line in result.out.splitlines())
    assert len(result.out.splitlines()) == 2


def code_spans(markdown: str) -> list[str]:
    """The names it shows, once its tables hold and no HTML, link or emphasis has come alive."""
    shown = []
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown)
    widths: list[int] = []
    for token in tokens:
        if token.type == "tr_open":
            widths.append(0)
        elif token.type in ("th_open", "td_open"):
            widths[-1] += 1
        assert token.type != "html_block"
        for child in token.children or []:
            assert child.type not in ("link_open", "image", "em_open")
            if child.type == "html_inline":
                assert child.content in ("<sub>", "</sub>")
            if child.type == "code_inline":
                shown.append(child.content)
    assert widths
    heads = [line.count("---") for line in markdown.splitlines() if line.startswith("| ---")]
    assert len(heads) == sum(token.type == "table_open" for token in tokens)
    assert set(widths) <= set(heads)
    return shown


def test_a_path_with_bytes_that_are_no_text_is_reported(tmp_path: Path) -> None:
    path = os.path.join(os.fsencode(tmp_path), b"runs-\xff.jsonl")
    with open(path, "wb") as file:
        file.write(lines(both()))
    result = twoarm("score", os.fsdecode(path), "--format", "json")
    assert result.code == 0
    assert json.loads(result.out)["inputs"][0]["path"].endswith("runs-\\xff.jsonl")


def test_source_date_epoch_fixes_the_time(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    first = twoarm("score", str(runs), "--format", "json").out
    assert json.loads(first)["generated_at_utc"] == "2023-11-14T22:13:20Z"
    assert twoarm("score", str(runs), "--format", "json").out == first
