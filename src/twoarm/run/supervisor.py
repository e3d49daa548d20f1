"""One attempt in a process of its own, which owns every descendant until none is left.

Standard library only, and started with `-I -S`; what imports slowly is imported where it is needed.
The order comes on standard input, marshalled, and says what `order.py` says. The input stays open
as a lifeline: its end means that the runner is gone or wants no more, and then everything is killed
and nothing is handed over. The word `budget` on it stops the agent and keeps its run.
"""

import marshal
import os
import resource
import stat
import sys
import time

from twoarm.run.processes import NOT_STARTED, Cancelled, Herd, Lifeline, Steps, stand_alone
from twoarm.run.program import find_on, why_unfit
from twoarm.run.remove import remove
from twoarm.run.strike import Strike

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Exit codes of this process.
CANCELLED = 75
FAILED = 74

# The exit code of a shell's `timeout`, for acceptance that took too long.
TIMED_OUT = 124
_NOT_RUNNABLE = 126
# `collect` takes this one for "never ran"; here acceptance did run.
_NEVER_RAN = 99
_DIFF_SECONDS = 60.0
_COPY_SECONDS = 3600.0
# Of one attempt at a time, with their threads; far above what builds and tests need.
MOST_PROCESSES = 8192
_GIT = ("git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0")
_IDENTITY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (
        ("NAME", "twoarm"),
        ("EMAIL", "twoarm@localhost"),
        ("DATE", "2000-01-01T00:00:00Z"),
    )
}


class Attempt:
    """The folders and steps of one attempt."""

    def __init__(self, order: "dict[str, Any]", lifeline: Lifeline) -> None:
        self.order = order
        scratch = order["scratch"]
        self.work, self.home, self.temporary, self.output = (
            os.path.join(scratch, name) for name in ("work", "home", "tmp", "out")
        )
        os.mkdir(scratch, 0o700)
        for folder in (self.home, self.temporary, self.output):
            os.mkdir(folder)
        # Fresh for acceptance, whatever the agent did to its own.
        self.clean_home = os.path.join(scratch, "home2")
        self.steps = Steps(lifeline, order["marker"], order["grace_seconds"])
        self.base: str = order["base"]
        self.kept: set[str] = set()

    def log(self, name: str) -> str:
        """A file that is kept; whatever else lies beside it is not."""
        self.kept.add(name)
        return os.path.join(self.output, name)

    def aside(self, name: str) -> str:
        """A file that is not kept."""
        return os.path.join(self.output, name)

    def env(self, kind: str) -> "dict[str, str]":
        """The variables of set-up, agent or acceptance: built from nothing."""
        home = self.clean_home if kind == "acceptance" else self.home
        temporary = os.path.join(home, "tmp") if kind == "acceptance" else self.temporary
        return {**self.order["env"][kind], "HOME": home, "TMPDIR": temporary}

    def shell(self, command: str, kind: str, log: str, seconds: float) -> "tuple[int, str]":
        """One shell command in the workspace."""
        argv = [*self.order["sandbox"], "/bin/sh", "-c", command]
        code, why, _ = self.steps.run(argv, self.env(kind), self.log(log), None, seconds)
        return (TIMED_OUT if why == "timeout" else code), why

    def git(self, *arguments: str, output: str = "git.log", **env: str) -> int:
        """One command of git, in the workspace and with nobody's settings."""
        clean = {**self.env("setup"), "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
        code, _, _ = self.steps.run(
            [*_GIT, *arguments],
            {**clean, **_IDENTITY, **env},
            self.aside(output),
            self.aside("git.log"),
            _DIFF_SECONDS,
        )
        return code


def prepare(attempt: Attempt) -> int:
    """A copy of the tree, the arm's set-up, the files of HOME; the exit code of the set-up."""
    order = attempt.order
    copy_tree(attempt, order["tree"], attempt.work)
    os.chdir(attempt.work)
    for command in order["setup"]:
        code, _ = attempt.shell(command, "setup", "setup.log", order["setup_seconds"])
        if code:
            return code
    if order["setup"]:
        attempt.git("add", "-A")
        attempt.git("commit", "-q", "--amend", "--no-edit", "--allow-empty", "--reset-author")
        attempt.git("rev-parse", "HEAD", output="base")
        with open(attempt.aside("base"), encoding="ascii") as file:
            attempt.base = file.read().strip()
    # The agent starts with a HOME that no set-up has touched.
    remove(attempt.home)
    os.mkdir(attempt.home)
    for name, text in order["home_texts"].items():
        with open(_parent_made(attempt.home, name), "w", encoding="utf-8") as file:
            file.write(text)
    for name, source in order["home_files"].items():
        copy_tree(attempt, source, _parent_made(attempt.home, name))
    return 0


def copy_tree(attempt: Attempt, source: str, target: str) -> None:
    """A file or a tree, as it is; without copying bytes where the file system can."""
    remove(target)
    how = ["cp", "-a", "--reflink=auto"] if sys.platform == "linux" else ["cp", "-a"]
    argv = [*how, source, target]
    log = attempt.aside("copy.log")
    code, _, _ = attempt.steps.run(argv, attempt.env("setup"), log, None, _COPY_SECONDS)
    if code:
        with open(log, encoding="utf-8", errors="replace") as file:
            said = file.read(300).strip()
        # A full disk has no room for what `cp` says of it.
        there = os.statvfs(os.path.dirname(target))
        free = f"{there.f_bavail * there.f_frsize >> 20} MB free"
        raise OSError(code, f"cannot copy the workspace to {target}: {said or 'cp failed'}; {free}")


def run_agent(attempt: Attempt) -> "dict[str, Any]":
    """The agent from start to end, then what it left; or why it could not be started."""
    order = attempt.order
    env = attempt.env("agent")
    program = order["argv"][0]
    # A sandbox in front of it would start, and fail in the agent's name.
    if unfit := why_unfit(find_on(env["PATH"], program)):
        return {"not_started": f"{program}: {unfit}"}
    started = time.time()
    code, why, seconds = attempt.steps.run(
        [*order["sandbox"], *order["argv"]],
        env,
        attempt.log(order["output"]),
        attempt.log("stderr.log"),
        order["timeout_seconds"],
        order["output_bytes"],
    )
    if why == NOT_STARTED:
        return {"not_started": attempt.steps.refused}
    # Said too late, or obeyed: what follows is not the agent.
    attempt.steps.lifeline.word = ""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    for number, after in enumerate(order["after"]):
        run_after(attempt, after, number)
    keep(attempt)
    return {
        "agent_exit_code": code,
        "ended_by": why,
        # Of one clock: the other may be set while the agent runs.
        "duration_seconds": round(seconds, 3),
        "started_at_utc": utc(started),
        "ended_at_utc": utc(started + seconds),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 3),
        "peak_rss_mb": used.ru_maxrss // (1 << 20 if sys.platform == "darwin" else 1 << 10),
    }


def utc(moment: float) -> str:
    """A time as the sidecar spells it."""
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment))
    return f"{whole}.{int(moment % 1 * 1000):03d}Z"


def run_after(attempt: Attempt, after: "dict[str, Any]", number: int) -> None:
    """A command for each match in a kept file, each with its own output."""
    matches = [""]
    if after["pattern"] is not None:
        import re

        try:
            with open(attempt.log(after["source"]), encoding="utf-8", errors="replace") as file:
                text = file.read(attempt.order["output_bytes"])
        except OSError:
            return
        matches = list(dict.fromkeys(re.findall(after["pattern"], text)))
    for at, match in enumerate(matches):
        name = after["output"] if at == 0 else after["more"]
        if name is None:
            return
        kept = attempt.log(name.replace("{match}", match))
        code, why, _ = attempt.steps.run(
            [
                *attempt.order["sandbox"],
                *(part.replace("{match}", match) for part in after["argv"]),
            ],
            attempt.env("agent"),
            kept,
            attempt.log(f"after{number}.log"),
            after["seconds"],
            attempt.order["output_bytes"],
        )
        if (code, why) != (0, "exit") and os.path.exists(kept):
            # Half an output would make the whole run unreadable, and that the agent's failure.
            os.unlink(kept)


def keep(attempt: Attempt) -> None:
    """The files of HOME that are kept, and the counts that a command may have left."""
    found: list[tuple[str, str]] = [(attempt.order["usage"], "usage.json")]
    for pattern, name in attempt.order["keep"].items():
        import glob

        paths = glob.glob(pattern, root_dir=attempt.home, recursive=True, include_hidden=True)
        whole = [os.path.join(attempt.home, path) for path in paths]
        found += [(path, name) for path in sorted(whole, key=os.path.getmtime)]
    for path, name in found:
        if _is_file(path):
            os.replace(path, attempt.log(name))


def write_diff(attempt: Attempt) -> None:
    """What the agent changed, next to the commit it was given, whatever it did to the index."""
    index = attempt.aside("index")
    how = ("diff", "--cached", "--binary", "--no-ext-diff", "--no-textconv", attempt.base)
    attempt.git("add", "-A", GIT_INDEX_FILE=index)
    attempt.git(*how, output="diff.patch", GIT_INDEX_FILE=index)
    attempt.kept.add("diff.patch")


def accept(attempt: Attempt) -> "dict[str, Any]":
    """Acceptance, with the tests as they were and none of the agent's variables."""
    order = attempt.order
    if os.path.islink(attempt.work) or not os.path.isdir(attempt.work):
        remove(attempt.work)
        os.mkdir(attempt.work)
    os.chdir(attempt.work)
    for path in order["restore"]:
        source = os.path.join(order["tree"], path)
        target = _parent_made(attempt.work, path)
        if os.path.lexists(source):
            copy_tree(attempt, source, target)
        else:
            remove(target)
    os.makedirs(os.path.join(attempt.clean_home, "tmp"))
    command, seconds = order["acceptance_command"], order["acceptance_seconds"]
    code, why = attempt.shell(command, "acceptance", "acceptance.log", seconds)
    return {"acceptance_exit_code": 1 if code == _NEVER_RAN else code, "acceptance_ended_by": why}


def _parent_made(root: str, path: str) -> str:
    """A path below a folder whose parents are folders: an agent may have put links there."""
    at = root
    parts = path.rstrip("/").split("/")
    for part in parts[:-1]:
        at = os.path.join(at, part)
        if os.path.islink(at) or not os.path.isdir(at):
            remove(at)
            os.mkdir(at)
    return os.path.join(at, parts[-1])


def hand_over(attempt: Attempt, facts: "dict[str, Any]") -> None:
    """The kept files, struck out, into the folder of the attempt; `outcome` is the last."""
    order = attempt.order
    strike = Strike(order["secrets"])
    os.chdir("/")
    failed = facts.get("acceptance_exit_code") != 0 or facts.get("ended_by") != "exit"
    # First of all, so that a disk which the agent filled has room for what it did.
    if order["keep_workspace"] == "all" or (order["keep_workspace"] == "failed" and failed):
        strike.tree(attempt.work, os.path.join(order["folder"], "workspace"), order["output_bytes"])
    _cleared(attempt.work)
    sizes = {}
    for name in sorted(attempt.kept):
        if _is_file(attempt.aside(name)):
            os.chmod(attempt.aside(name), 0o600)
            target = os.path.join(order["folder"], name)
            with open(attempt.aside(name), "rb") as source, open(target, "wb") as made:
                strike.copy(source, made, order["output_bytes"])
            sizes[name] = os.stat(target).st_size
    facts["files"] = sizes
    facts["leftovers"] = [strike.text(name) for name in attempt.steps.leftovers[:20]]
    path = os.path.join(order["folder"], "outcome")
    with open(path + ".tmp", "wb") as file:
        file.write(marshal.dumps(facts))
    os.rename(path + ".tmp", path)


def _is_file(path: str) -> bool:
    """Whether there is a file of its own: a link or a pipe is nothing that was written down."""
    return os.path.lexists(path) and stat.S_ISREG(os.lstat(path).st_mode)


def run(order: "dict[str, Any]", lifeline: Lifeline) -> None:
    """A whole attempt; or, without an agent, its set-up and acceptance alone."""
    begun = time.monotonic()
    attempt = Attempt(order, lifeline)
    with open(attempt.log("prompt.txt"), "w", encoding="utf-8") as file:
        file.write(order["prompt"])
    facts: dict[str, Any] = {"setup_exit_code": prepare(attempt)}
    if not facts["setup_exit_code"] and order["argv"]:
        facts |= run_agent(attempt)
    ready = not facts["setup_exit_code"] and "not_started" not in facts
    if ready and order["acceptance_command"]:
        facts |= _checked(attempt)
    facts["attempt_seconds"] = round(time.monotonic() - begun, 3)
    if order["result"] is not None and not facts["setup_exit_code"]:
        os.chdir("/")
        os.rename(attempt.work, order["result"])
    hand_over(attempt, facts)


def _checked(attempt: Attempt) -> "dict[str, Any]":
    """The change and acceptance; an agent that broke its own folders has failed, no one else."""
    try:
        if attempt.order["argv"]:
            write_diff(attempt)
        return accept(attempt)
    except OSError as error:
        return {"acceptance_exit_code": _NOT_RUNNABLE, "broken": error.strerror}


def _cleared(scratch: str) -> None:
    try:
        remove(scratch)
    except OSError as error:
        # It is in the cache, and the runner clears that; the run itself is safe.
        sys.stderr.write(f"{error}\n")


def main() -> None:
    """Read the order, obey it, leave nothing and nobody behind."""
    stand_alone()
    lifeline = Lifeline()
    herd = Herd(MOST_PROCESSES)
    code, scratch = 0, None
    try:
        order = marshal.loads(lifeline.order())
        scratch = order["scratch"]
        run(order, lifeline)
    except Cancelled:
        code = CANCELLED
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        sys.stdout.write(f"{error.strerror or error}{where}")
        sys.stdout.flush()
        code = FAILED
    finally:
        os.chdir("/")
        if scratch is not None:
            _cleared(scratch)
        herd.leave()
    # Nothing of the interpreter is worth tearing down.
    os._exit(code)
