"""Links, pipes, folders and odd names anywhere around a run: nothing of the user's is touched.

They are planted in the workspace, the files of the arms and HOME, the run folder and the cache:
by the suite, by somebody before the start or a resume, and by the agent itself. Every command ends,
in a way that is meant for people, and a run that has ended accounts for every trial.
"""

import json
import os
import random
import shutil
import signal
import stat
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.conftest import Result
from tests.support.canaries import Seen, differences, git
from tests.support.run_folders import QUICK, unaccounted
from tests.support.suite_files import wait_for
from tests.support.yard import Yard

SEEDS = 8

# Carries out what a seed has drawn, and nothing through a link: what it harms must be our doing.
AGENT = """
import json, os, shutil, signal, stat, sys, time
plan = json.load(open(sys.argv[1]))
box = os.path.realpath(plan["cache"]) + "/"
print("at work", flush=True)
if not os.path.exists(plan["gate"]):
    open(plan["begun"], "w").close()
    time.sleep(plan["pause"])
places = {"work": os.getcwd(), "up": os.path.dirname(os.getcwd()), "home": os.environ["HOME"],
          "up2": os.path.dirname(os.path.dirname(os.getcwd())), "tmp": os.environ["TMPDIR"],
          "usage": os.environ["TWOARM_USAGE"]}

def put(kind, where, name, to):
    path = os.path.join(places[where], name) if name else places[where]
    above = os.path.dirname(path)
    if not (os.path.realpath(above) + "/").startswith(box):
        return
    os.makedirs(above, exist_ok=True)
    if not (os.path.realpath(above) + "/").startswith(box):
        return
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        os.unlink(path)
    if kind == "link":
        os.symlink(to, path)
    elif kind == "hard":
        os.link(to, path, follow_symlinks=False)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        os.mknod(path, stat.S_IFSOCK | 0o600)
    elif kind == "folder":
        os.makedirs(os.path.join(path, "x"))
    elif kind == "file":
        with open(path, "wb") as file:
            file.write(to.encode("utf-8", "surrogateescape"))

for step in plan["steps"]:
    try:
        put(*step)
    except (OSError, ValueError):
        continue
end = plan["end"]
if end == "stop the supervisor":
    os.kill(os.getppid(), signal.SIGSTOP)
elif end == "kill the supervisor":
    os.kill(os.getppid(), signal.SIGKILL)
elif end == "wait":
    time.sleep(60)
elif end == "noise":
    os.write(1, bytes(range(256)))
else:
    sys.exit(int(end))
"""

NAMES = ["a", "b", "docs", "link", ".claude", "AGENTS.md", "tests", "check.sh", "settings.json",
         "-rf", "new\nline", " ", "x" * 200, "letter.txt"]  # fmt: skip
ODD = [*NAMES, "latin-\udce9", ".git", ".gitignore", ".gitattributes", ".gitmodules", ".env"]
TEXTS = ["text\n", "*\n", "* filter=x\n", "gitdir: {user}/repo/.git\n", "\udcff\udcfe",
         "[core]\n\tworktree = {user}/docs\n", "* working-tree-encoding=UTF-16\n", ""]  # fmt: skip
KINDS = ["link", "link", "link", "pipe", "folder", "file", "socket", "gone"]
# What an agent may spoil of the folders around it: of now, and of before.
AROUND = [
    ("usage", ""), ("home", ""), ("tmp", ""), ("work", ""), ("work", ".git"), ("up", "out"),
    ("up", "home2"), ("up", "out/diff.patch"), ("up", "out/usage.json"), ("work", ".git/config"),
    ("work", ".git/HEAD"), ("work", ".git/index"), ("work", ".git/info/exclude"),
    ("home", ".config/git/ignore"), ("home", ".config/git/attributes"), ("home", ".profile"),
    ("up2", "own/out"), ("up2", "own/home"), ("up2", "own/git"), ("up2", "own/out/stdout.txt"),
    ("up2", "own/out/diff.patch"), ("up", ""),
]  # fmt: skip
FOLDER = ["place.json.tmp", "schedule.json.tmp", "journal.jsonl", "lock", "stop", ".attempts",
          ".attempts/lock", ".attempts/with", ".attempts/with/one.1.1", "runs", "runs/with",
          "setup", "collected.jsonl", "receipt.json", "analysis.json", "report.html",
          "run-pages", ".attempts/with/one.1.2/run.json"]  # fmt: skip
NEW = ["lock", ".attempts", ".attempts/lock", "runs", "setup", "journal.jsonl", "stop",
       "place.json.tmp", "schedule.json.tmp"]  # fmt: skip
CACHE = ["", "trees", "builds", "t", "prepared.json", "prepared.json.tmp", "trees/start",
         "trees/tree0"]  # fmt: skip
ENDS = ["0"] * 12 + ["1", "86", "wait", "noise", "stop the supervisor", "kill the supervisor"]


class Planting:
    """What one seed draws, and where it is put."""

    def __init__(self, yard: Yard, seed: int) -> None:
        self.yard = yard
        self.rng = random.Random(seed)
        self.told = [f"seed {seed}"]
        # Half of the suites are plain: of the others many are refused, and no agent ever starts.
        self.wild = self.rng.random() < 0.5
        # Paths of the workspace that are links.
        self.links: list[str] = []

    def target(self) -> str:
        """Where a link leads: to the user, most often."""
        user = self.yard.user
        name = self.rng.choice(["docs", "docs/letter.txt", "docs/hard.txt", "repo", "repo/.git",
                                ".claude", ".codex", "trap", "nowhere", "docs/new"])  # fmt: skip
        path = str(user / name)
        return self.rng.choice([path, path, "../" * 30 + path[1:], "..", ".", "a", "loop"])

    def path(self, names: list[str]) -> str:
        return "/".join(self.rng.choice(names) for _ in range(self.rng.choice([1, 1, 2, 3])))

    def text(self) -> str:
        return self.rng.choice(TEXTS).replace("{user}", str(self.yard.user))

    def put(self, path: Path, kinds: list[str]) -> None:
        """One thing at a path, unless something on the way is in the way."""
        kind = self.rng.choice(kinds)
        to = self.target() if kind == "link" else self.text()
        # Not through a link, as the agent.
        root = os.path.realpath(self.yard.root)
        here = os.path.join(root, path.parent.relative_to(self.yard.root))
        if os.path.realpath(path.parent) != os.path.normpath(here):
            return
        try:
            if path.parent.is_symlink() or not path.parent.is_dir():
                path.parent.mkdir(parents=True)
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            path.unlink(missing_ok=True)
            self._make(kind, path, to)
        except OSError:
            return
        self.told.append(f"{kind} at {path.relative_to(self.yard.root)!s:.60} {to!a:.80}")

    def _make(self, kind: str, path: Path, to: str) -> None:
        if kind == "link":
            path.symlink_to(to)
        elif kind == "pipe":
            os.mkfifo(path)
        elif kind == "socket":
            os.mknod(path, stat.S_IFSOCK | 0o600)
        elif kind == "folder":
            (path / "x").mkdir(parents=True)
        elif kind == "file":
            path.write_text(to, errors="surrogateescape")
        elif kind == "repository":
            path.mkdir()
            git(path, "init", "-q")

    # The suite and what lies beside it.

    def sources(self) -> list[str]:
        """Files and folders for the arms: some are links, some have links in them."""
        folder = self.yard.folder
        (folder / "note.md").write_text("a note\n")
        (folder / "linked.md").symlink_to("../docs/letter.txt")
        (folder / "linked").symlink_to("../.claude")
        (folder / "many").mkdir()
        for _ in range(3):
            self.put(folder / "many" / self.rng.choice(NAMES), ["link", "file", "pipe", "folder"])
        return ["note.md", "linked.md", "linked", "many"]

    def workspace(self) -> dict[str, Any]:
        """A folder with traps in it, or a link to one of the user's."""
        app = self.yard.app()
        for _ in range(self.rng.randint(1, 6) if self.wild else 0):
            path = app / self.path(ODD)
            self.put(path, [*KINDS, "repository"])
            name = str(path.relative_to(app))
            if path.is_symlink() and "\udce9" not in name and not name.startswith(".git"):
                self.links.append(name)
        draw = self.rng.random()
        if draw < 0.05:
            return {"copy": None, "repo": "../repo"}
        if draw < 0.2:
            (self.yard.folder / "seed").symlink_to(self.rng.choice(["app", "../repo", "../docs"]))
            return {"copy": "seed"}
        return {"copy": "app"}

    def some(self) -> list[str]:
        """Paths of a key of the suite; through a link, where there is one."""
        found = []
        for _ in range(self.rng.choice([0, 0, 1, 2]) if self.wild else 0):
            path = self.path(NAMES)
            if self.links and self.rng.random() < 0.7:
                names = ["", "/", "/letter.txt", "/deep", "/deep/x", "/settings.json", "/new"]
                path = self.rng.choice(self.links) + self.rng.choice(names)
            found.append(path)
        return found

    def suite(self) -> Path:
        workspace = self.workspace()
        sources = self.sources()

        def table() -> dict[str, str]:
            return {path: self.rng.choice(sources) for path in self.some()}

        set_up = ["echo made > made.txt", f"ln -sfT '{self.target()}' made || true", "mkfifo p"]
        if self.rng.random() < 0.3:
            workspace["setup_commands"] = [self.rng.choice(set_up)]
        arms: dict[str, Any] = {
            "with": {"remove": self.some(), "files": table(), "home": table()},
            "without": {"env": {"A": "1"}},
        }
        if self.rng.random() < 0.3:
            arms["with"]["setup_commands"] = [self.rng.choice(set_up)]
        (self.yard.folder / "agent.py").write_text(AGENT)
        argv = [sys.executable, "-I", "-S", "{suite}/agent.py", str(self.yard.signs / "plan.json")]
        limits = {"timeout_seconds": 1.5, "grace_seconds": 0.2, "acceptance_seconds": 3,
                  "setup_seconds": 3}  # fmt: skip
        return self.yard.suite(
            agent={"argv": argv, "home": table()}, arms=arms, workspace=workspace, limits=limits,
            acceptance_files=self.some(),
        )  # fmt: skip

    def steps(self) -> list[list[str]]:
        """What the agent does."""
        made = []
        for _ in range(self.rng.randint(1, 8)):
            where, name = self.rng.choice(AROUND)
            if self.rng.random() < 0.5:
                where = self.rng.choice(["work", "work", "home", "tmp"])
                name = self.path(ODD)
            kind = self.rng.choice([*KINDS, "hard"])
            to = self.target() if kind == "link" else self.text()
            if kind == "hard":
                to = str(self.yard.user / "docs" / "letter.txt")
            made.append([kind, where, name, to])
        return made

    def plan(self) -> None:
        """The next agents' plan, where they find it."""
        known = {"cache": str(self.yard.cache), "gate": str(self.yard.gate), "pause": 20.0,
                 "begun": str(self.yard.begun)}  # fmt: skip
        drawn = {"steps": self.steps(), "end": self.rng.choice(ENDS)}
        self.told.append(json.dumps(drawn))
        (self.yard.signs / "plan.json").write_text(json.dumps(known | drawn))


class _Yard(Yard):
    def look(self) -> dict[str, Seen]:
        """The user's files; an agent may have given one of them another name."""
        return {path: seen._replace(names=0) for path, seen in super().look().items()}


def once(seed: int) -> None:
    """One suite, one user; raises AssertionError if the user has lost anything, or a trial."""
    with (
        tempfile.TemporaryDirectory(prefix="twoarm-fuzz-") as name,
        closing(_Yard(Path(name) / "yard")) as yard,
    ):
        for below in ("work", "home", "tmp", "out", "box", "own", "t", "trees/start", "with/one.1"):
            (yard.user / "trap" / below).mkdir(parents=True)
            (yard.user / "trap" / below / "precious.txt").write_text("mine\n")
        planting = Planting(yard, seed)
        try:
            _carried_out(yard, planting)
        except AssertionError as error:
            raise AssertionError("\n".join([str(error), *planting.told])) from error


def _carried_out(yard: Yard, planting: Planting) -> None:
    rng = planting.rng
    suite = planting.suite()
    before = yard.look()
    if rng.random() < 0.5:
        _calm(yard.twoarm("run", suite, "--dry-run", "--repeats", "1"), "dry run")
    if rng.random() < 0.1:
        yard.out.mkdir()
        planting.put(yard.out / rng.choice(NEW), KINDS)
    planting.plan()
    if rng.random() < 0.5:
        result = yard.run(suite)
    else:
        _killed(yard, suite, rng)
        if rng.random() < 0.5:
            planting.put(yard.out / rng.choice(FOLDER), KINDS)
        for place in list(yard.cache.iterdir())[: rng.choice([0, 0, 1])]:
            planting.put(place / rng.choice(CACHE), KINDS)
        planting.plan()
        result = yard.twoarm("run", suite, "--resume", yard.out, *QUICK)
    _calm(result, "run")
    if result.code in (0, 3):
        assert unaccounted(yard.out) == [], result.err
        planting.put(yard.out / "run-pages", ["link", "pipe", "file", "gone"])
        _calm(yard.score(), "score")
    for word in ("--status", "--stop"):
        _calm(yard.twoarm("run", word, yard.out), word)
    changed = differences(before, yard.look())
    assert not changed, "\n".join(changed)


def _killed(yard: Yard, suite: Path, rng: random.Random) -> None:
    """A run that is killed at some moment, and everything it has started with it."""
    if rng.random() < 0.9:
        process = yard.running(suite)
        time.sleep(rng.random() * 0.05)
    else:
        process = yard.start("run", suite, "--out", yard.out, "--repeats", "1", *QUICK)
        time.sleep(rng.uniform(0.3, 1.0))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    wait_for(lambda: not yard.left(), 30)
    yard.gate.touch()


def _calm(result: Result, what: str) -> None:
    """It has ended in a way that is meant for people."""
    said = f"{what}: exit code {result.code}: {result.err[-2000:]}"
    assert result.code in (0, 2, 3), said
    assert "Traceback" not in result.err, said
    assert "a bug" not in result.err, said
