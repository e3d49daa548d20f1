"""What a terminal gets: the width it has, color, and a bar while it waits."""

import gzip
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import twoarm as package
from tests.conftest import both, command, lines, twoarm
from tests.support.pseudo_terminal import printed_on_terminal, shown_on, terminal
from tests.support.suite_files import SOLVE, suite_of, wait_for
from twoarm.commands.progress import PATIENCE_SECONDS


@pytest.mark.parametrize("number", [60, 80, 100, 120])
def test_the_report_is_as_wide_as_the_terminal(number: int, runs: Path) -> None:
    environment = {"TERM": "xterm", "NO_COLOR": "1", "COLUMNS": str(number)}
    seen = printed_on_terminal(["score", str(runs)], **environment)
    assert seen.decode().replace("\r\n", "\n") == package.score(runs).to_text(width=number)
    piped = command("score", str(runs), env={**os.environ, **environment}).stdout.decode()
    assert piped == package.score(runs).to_text(width=number), "who sets COLUMNS means it"


@pytest.mark.parametrize("columns", [None, "", "0", "-5", "wide", "99999999999", "²"])
def test_a_pipe_has_80_columns_unless_somebody_says_how_many(
    columns: str | None, runs: Path
) -> None:
    environment = {name: text for name, text in os.environ.items() if name != "COLUMNS"}
    if columns is not None:
        environment["COLUMNS"] = columns
    piped = command("score", str(runs), env=environment).stdout.decode()
    assert piped == package.score(runs).to_text(width=80)


@pytest.mark.parametrize(("columns", "widest"), [(40, 50), (60, 60), (80, 80), (300, 100)])
def test_help_fits_the_terminal(columns: int, widest: int) -> None:
    environment = {**os.environ, "COLUMNS": str(columns)}
    shown = command("score", "--help", env=environment).stdout.decode()
    options = shown.partition("\noptions:")[2].partition("\nexit codes:")[0]
    assert widest - 12 < max(map(len, options.splitlines())) <= widest


def test_a_terminal_gets_color_unless_it_asks_for_none(runs: Path) -> None:
    colored = printed_on_terminal(["score", str(runs)], NO_COLOR="")
    assert b"\x1b[1mprefer with_skelly\x1b[0m" in colored
    assert b"PROMOTE    \x1b[1;32myes, by the gates: " in colored
    plain = printed_on_terminal(["score", str(runs)], NO_COLOR="1")
    assert b"\x1b" not in plain
    assert plain.replace(b"\r\n", b"\n").decode() == twoarm("score", str(runs)).out


def scored_slowly(runs: Path, standard_error: int, wait: Callable[[], object]) -> bytes:
    """What standard output gets from a score whose input comes after a wait."""
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
    wait()
    process.stdin.write(text[400:])
    process.stdin.close()
    shown = process.stdout.read()
    process.stdout.close()
    assert process.wait(60) == 0
    return shown


def test_a_terminal_that_has_to_wait_sees_a_progress_bar(runs: Path) -> None:
    leader, follower = terminal()
    drawn = b""

    def until_drawn() -> None:
        nonlocal drawn
        while not (b"starting" in drawn or b"reading" in drawn):
            assert select.select([leader], [], [], 40)[0], "nothing is drawn"
            drawn += os.read(leader, 4096)

    shown = scored_slowly(runs, follower, until_drawn)
    os.close(follower)
    seen = drawn + shown_on(leader)
    # The bar is taken away again, and the report is what it is without one.
    assert seen.rstrip().endswith((b"\x1b[2K", b"\x1b[?25h", b"\x1b[1A\x1b[2K"))
    assert shown.decode() == twoarm("score", str(runs)).out


def test_nothing_is_drawn_when_standard_error_is_piped(runs: Path) -> None:
    reading, writing = os.pipe()
    scored_slowly(runs, writing, lambda: time.sleep(4 * PATIENCE_SECONDS))
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


def test_a_terminal_that_takes_nothing_does_not_keep_a_run_from_going_on(
    tmp_path: Path, cache: Path
) -> None:
    """As with Ctrl-S, or where a connection hangs."""
    out = tmp_path / "out"
    suite = suite_of(tmp_path / "suite", f"sleep 0.5; {SOLVE}")
    leader, follower = terminal()
    words = ["run", str(suite), "--out", str(out), "--repeats", "2", "--jobs", "1", "--no-evidence"]
    process = subprocess.Popen(
        [sys.executable, "-m", "twoarm", *words, "--yes", "--run-pages", "none"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=follower,
        env={**os.environ, "TERM": "xterm"},
    )
    try:
        wait_for(lambda: list(out.glob("runs/*/*")), 40)
        # Nobody reads, and from now on there is no more room.
        full = os.open(os.ttyname(follower), os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
        with suppress(BlockingIOError):
            while os.write(full, b"." * 512):
                continue
        os.close(full)
        wait_for(lambda: len(list(out.glob("runs/*/*"))) == 8, 40)
    finally:
        os.close(follower)
        shown_on(leader)
        assert process.wait(60) == 0
