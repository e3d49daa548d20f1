"""A yard in which `twoarm run` may do whatever it does, and a user's home around it.

Everything is below one folder of the test. What twoarm makes is in `cache`, `tmp` and `made`, the
signs of scripted agents are in `signs`; the rest is the user's, and nobody may touch it.
"""

import gc
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import chdir, closing, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple
from unittest.mock import patch

from tests.conftest import Result, twoarm
from tests.support.canaries import Seen, differences, plant, snapshot
from tests.support.run_folders import QUICK, WITHOUT_PAGE
from tests.support.suite_files import SOLVE, processes_with, suite_of, wait_for

# A safety net; whatever takes this long does not end by itself.
PATIENCE_SECONDS = 30.0


def as_usual() -> None:
    """Every signal that a shell may have ignored as it is by default."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


class _Hung(BaseException):
    """A command has been waiting for too long."""


class Cycle(NamedTuple):
    """A dry run, a run that is killed in the middle, its resume, and another score of it."""

    dry: Result
    resumed: Result
    scored: Result | None


class Yard:
    """A user with a suite, and a place apart for whatever `twoarm` makes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.user = root / "user"
        self.folder = self.user / "suite"
        self.bin = root / "bin"
        self.cache, self.tmp, self.made, self.signs = (
            root / name for name in ("cache", "tmp", "made", "signs")
        )
        for path in (self.user, self.bin, self.cache, self.tmp, self.made, self.signs):
            path.mkdir(parents=True)
        plant(self.user)
        self.out = self.made / "out"
        self.gate, self.begun = self.signs / "gate", self.signs / "begun"
        self.gate.touch()
        self.env: dict[str, str] = {}

    # The suite.

    def suite(self, script: str = SOLVE, **changed: Any) -> Path:
        """A suite of one task whose agent waits at the gate, if that is shut, then does this."""
        wait = f"[ -e '{self.gate}' ] || : > '{self.begun}'"
        wait += f"; while [ ! -e '{self.gate}' ]; do sleep 0.05; done"
        base: dict[str, Any] = {
            "limits": {"retries": 0, "retry_seconds": 0, "timeout_seconds": 20}
            | {"grace_seconds": 0.5},
            # The gate can be seen in a sandbox, too.
            "agent": {"mounts": [str(self.signs)]},
            "tasks": [{"id": "one", "prompt": "p", "acceptance_command": "test -f answer.txt"}],
        }
        for key, value in changed.items():
            base[key] = base[key] | value if key in ("limits", "agent") else value
        return suite_of(self.folder, f"{wait}\n{script}\n", **base)

    def app(self) -> Path:
        """The folder that the suite copies, with a file in it."""
        path = self.folder / "app"
        path.mkdir(parents=True, exist_ok=True)
        (path / "README.md").write_text("an app\n")
        return path

    def stand_in(self, name: str, version: str, script: str) -> None:
        """A program on PATH that is started as a real agent would be."""
        path = self.bin / name
        says = f"if [ \"$1\" = --version ]; then echo '{version}'; exit; fi"
        path.write_text(f"#!/bin/sh\n{says}\n{script}\n")
        path.chmod(0o755)

    # The command.

    def environment(self) -> dict[str, str]:
        """That of the tests, but for every place that a program might write to."""
        kept = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
        return {
            **kept,
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "HOME": str(self.user),
            "TMPDIR": str(self.tmp),
            "TWOARM_CACHE": str(self.cache),
            "PYTHONDONTWRITEBYTECODE": "1",
            **self.env,
        }

    def start(
        self, *words: str | Path, under: tuple[str, ...] = (), **options: Any
    ) -> "subprocess.Popen[str]":
        """`twoarm` as a process of its own, in a folder where it may write."""
        # In the background of a script the tests themselves ignore some signals.
        options = {"preexec_fn": as_usual} | options
        return subprocess.Popen(
            [*under, sys.executable, "-c", WITHOUT_PAGE, *map(str, words)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            errors="backslashreplace", cwd=self.made, env=self.environment(),
            start_new_session=True, **options,
        )  # fmt: skip

    def ended(self, process: "subprocess.Popen[str]", what: str) -> Result:
        """How a process ended; it is a failure if it does not."""
        try:
            out, err = process.communicate(timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            self.kill_all()
            raise AssertionError(f"{what}: does not end") from None
        return Result(process.returncode, out, err)

    def twoarm(self, *words: str | Path) -> Result:
        """One command from start to end, in this process, since a new one takes longer to start."""
        what = " ".join(map(str, words))
        with (
            self.untouched(what),
            patch.dict(os.environ, self.environment(), clear=True),
            patch.object(tempfile, "tempdir", str(self.tmp)),
            patch("twoarm.render.report.Report.to_html", lambda self, links: ""),
            chdir(self.made),
            self._ending(what),
        ):
            return twoarm(*map(str, words))

    @contextmanager
    def _ending(self, what: str) -> Iterator[None]:
        """It is a failure if it does not end."""
        waited: list[int] = []

        def hung(number: int, frame: FrameType | None) -> None:
            waited.append(number)
            raise _Hung

        before = signal.signal(signal.SIGALRM, hung)
        # Again and again, because something might wait on the way out as well.
        signal.setitimer(signal.ITIMER_REAL, PATIENCE_SECONDS, 1.0)
        try:
            with suppress(_Hung):
                yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            # Whoever takes everything for a bug of its own took this for one.
            if waited:
                self.kill_all()
                with warnings.catch_warnings():
                    # What it has left open is no fault of the next test.
                    warnings.simplefilter("ignore")
                    gc.collect()
                raise AssertionError(f"{what}: does not end")

    def dry_run(self, suite: Path) -> Result:
        return self.twoarm("run", suite, "--dry-run", "--repeats", "1")

    def run(self, suite: Path, *more: str) -> Result:
        """A whole run into `out`."""
        return self.twoarm("run", suite, "--out", self.out, "--repeats", "1", *QUICK, *more)

    def resume(self, *more: str) -> Result:
        return self.twoarm("run", "--resume", self.out, *QUICK, *more)

    def score(self) -> Result:
        collected = self.out / "collected.jsonl"
        words = ("--baseline", "without", "--candidate", "with", "--out", self.out)
        return self.twoarm("score", collected, *words, "--no-evidence", "--format", "json")

    def running(self, suite: Path, *more: str) -> "subprocess.Popen[str]":
        """A run whose first agent waits at the gate; or one that has ended before."""
        self.gate.unlink(missing_ok=True)
        self.begun.unlink(missing_ok=True)
        quick = ("--repeats", "1", "--jobs", "1", *QUICK, *more)
        process = self.start("run", suite, "--out", self.out, *quick)
        wait_for(lambda: self.begun.exists() or process.poll() is not None, PATIENCE_SECONDS)
        return process

    def cycle(self, suite: Path) -> Cycle:
        """Everything that can be done with a suite; the user's files stay as they are."""
        dry = self.dry_run(suite)
        with self.untouched("a run that is killed"):
            process = self.running(suite)
            process.send_signal(signal.SIGKILL)
            early = self.ended(process, "a run that is killed")
            self.gate.touch()
            wait_for(lambda: not self.left(), PATIENCE_SECONDS)
        if early.code != -signal.SIGKILL:
            return Cycle(dry, early, None)
        for word in ("--status", "--stop"):
            assert self.twoarm("run", word, self.out).code == 0
        resumed = self.resume()
        return Cycle(dry, resumed, self.score() if resumed.code == 0 else None)

    # What came of it.

    def look(self) -> dict[str, Seen]:
        """The user's files."""
        return snapshot(self.root, (self.cache, self.tmp, self.made, self.signs))

    @contextmanager
    def untouched(self, what: str) -> Iterator[None]:
        """The user's files are the same before and after."""
        before = self.look()
        yield
        changed = differences(before, self.look())
        assert not changed, "\n".join([f"{what}:", *changed[:40]])

    def kept(self, arm: str, name: str) -> Path:
        """A file of the run of the one task."""
        return self.out / "runs" / arm / "one.1" / name

    def left(self) -> list[int]:
        """Processes that `twoarm` has started here, however they are by now."""
        return [int(found.split(":")[0]) for found in processes_with(str(self.cache))]

    def kill_all(self) -> None:
        """End whatever `twoarm` has started here, and nobody else."""
        while left := self.left():
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)

    def close(self) -> None:
        """Leave nobody behind, and nothing that a plain removal would not take away."""
        self.kill_all()
        # Trees may be deeper than Python can count.
        subprocess.run(["rm", "-rf", self.cache, self.tmp, self.made], check=False)
        for closed in self.user.rglob("closed"):
            closed.chmod(0o755)


@contextmanager
def a_yard(root: Path) -> Iterator[Yard]:
    """A yard that leaves nobody behind."""
    with closing(Yard(root)) as yard:
        yield yard
