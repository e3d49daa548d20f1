"""What the tests share: how to write runs by hand, and golden files."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from twoarm.commands.cli import main

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.support.containers import Podman
    from tests.support.yard import Yard

GOLDEN = Path(__file__).parent / "golden"
ARMS = WITH, WITHOUT = "with_skelly", "without_skelly"

# With a sandbox, agents of tests could not leave signs where the tests look for them: on PATH there
# is one that does not start, also for the processes that tests start.
_IN_THE_OPEN = str(Path(__file__).parent / "support" / "no_bubblewrap")
REAL_PATH = os.environ["PATH"].removeprefix(f"{_IN_THE_OPEN}{os.pathsep}")
os.environ["PATH"] = f"{_IN_THE_OPEN}{os.pathsep}{REAL_PATH}"

# A script that starts the tests in the background has them ignore Ctrl-C, and so would every runner
# that they interrupt; what is ignored stays so in whatever is started.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def run(task: str = "t", arm: str = WITH, repeat: int = 1, /, **changed: Any) -> dict[str, Any]:
    """A run in which every figure is a round number; change what the test is about."""
    return {
        "task_id": task,
        "arm": arm,
        "repeat": repeat,
        "success": True,
        "duration_seconds": 100.0,
        "total_cost_usd": 1.0,
        "input_tokens": 1000,
        "output_tokens": 100,
        "cache_read_tokens": 5000,
        "cache_write_tokens": 500,
    } | changed


def both(task: str = "t", repeat: int = 1, /, **changed: Any) -> list[dict[str, Any]]:
    """The same run in both arms."""
    return [run(task, arm, repeat, **changed) for arm in ARMS]


def lines(runs: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in runs)


class Result:
    """What a command printed, and its exit code."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err


def twoarm(*arguments: str) -> Result:
    """The command line, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main(arguments)
        except SystemExit as left:
            code = int(left.code or 0)
    return Result(code, out.getvalue(), err.getvalue())


def command(*arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """The command line as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "twoarm", *arguments], capture_output=True, check=False, **options
    )


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A file with five repeats of one task."""
    path = tmp_path / "runs.jsonl"
    path.write_bytes(lines([one for repeat in range(1, 6) for one in both(repeat=repeat)]))
    return path


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The workspaces of `twoarm run` where the test sees them."""
    path = tmp_path / "cache"
    monkeypatch.setenv("TWOARM_CACHE", str(path))
    # The page takes a second to draw, and is tested elsewhere.
    monkeypatch.setattr("twoarm.render.report.Report.to_html", lambda self, links: "")
    return path


@pytest.fixture
def bubblewrap(monkeypatch: pytest.MonkeyPatch) -> str:
    """The real one, by its path; without it CI fails, and elsewhere the test is skipped."""
    monkeypatch.setenv("PATH", REAL_PATH)
    tool = shutil.which("bwrap")
    if tool is None:
        message = "no bubblewrap; to test sandboxes, install it from your package manager"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return tool


@pytest.fixture(scope="session")
def podman_store() -> "Iterator[Podman]":
    """Containers and images of these tests alone; once for each worker."""
    from tests.support.containers import a_store, need

    need("podman", "runc", "catatonit", "busybox")
    if os.geteuid() != 0:
        need("newuidmap")
    with a_store() as store:
        yield store


@pytest.fixture
def podman(podman_store: "Podman", monkeypatch: pytest.MonkeyPatch) -> "Iterator[Podman]":
    """What `podman` is for a test, which must leave no container and no volume behind."""
    for name, value in podman_store.env.items():
        monkeypatch.setenv(name, value)
    yield podman_store
    assert podman_store.clear() == [], "containers or volumes were left behind"


@pytest.fixture
def docker(podman: "Podman", monkeypatch: pytest.MonkeyPatch) -> "Iterator[Podman]":
    """The client of docker, served by podman: what one of them made, the other sees."""
    from tests.support.containers import need

    need("docker")
    with podman.served() as address:
        monkeypatch.setenv("DOCKER_HOST", address)
        yield podman


@pytest.fixture
def yard(tmp_path: Path) -> "Iterator[Yard]":
    """A user's home full of canaries, and a place apart for what `twoarm run` makes."""
    from tests.support.yard import a_yard

    with a_yard(tmp_path / "yard") as made:
        yield made


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew")


# Files that take longest go first: begun last, one worker would do them while the others wait.
LONG = (
    *("agents/test_real.py", "documents/test_cluster.py", "run/test_kill.py"),
    *("run/test_deadlines.py", "documents/test_docs.py", "house/test_fuzz.py"),
    *("planning/test_plan.py", "planning/test_power.py", "planning/test_calibrate.py"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long files first, all else as it was found."""
    items.sort(key=lambda item: not item.path.as_posix().endswith(LONG))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """More workers than processors: many tests wait, for a process, a browser or a clock."""
    return (os.cpu_count() or 1) * 3 // 2


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A line for each thing that tests were skipped for: which tests, and how to have it."""
    skipped: dict[str, list[str]] = {}
    for report in terminalreporter.getreports("skipped"):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        skipped.setdefault(reason, []).append(report.nodeid.partition("::")[0])
    for reason, files in skipped.items():
        where = ", ".join(sorted(set(files)))
        terminalreporter.write_line(f"{len(files)} tests skipped in {where}: {reason}")


@pytest.fixture(scope="session")
def chromium() -> "Iterator[Browser]":
    """A real browser; without one CI fails, and elsewhere the test is skipped."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if path is None:
        message = (
            "no chromium; to test the page, tools/install-chromium.sh, or name one in CHROMIUM"
        )
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path,
            args=[
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
            ],
        )
        yield browser
        browser.close()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with a golden file, byte for byte."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8"), f"{name} differs; see `make golden`"

    return compare
