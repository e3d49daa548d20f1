"""One attempt in a process of its own, which owns every descendant until none is left.

Standard library only, and started with `-I -S`; what imports slowly is imported where it is needed.
Two descriptors come as arguments: of a file with the job, marshalled, which says what `jobs.py`
says; and of the folder that the scratch is made in. Standard input is a lifeline: its end means
that the runner is gone or wants no more, and then everything is killed and nothing is handed over.
The word `budget` on it stops the agent and keeps its run.
"""

import errno
import marshal
import os
import resource
import sys
import time

from twoarm.files.safe import OpenFolder
from twoarm.run.supervisor.grading import grade, not_graded
from twoarm.run.supervisor.isolation import IsolationError
from twoarm.run.supervisor.manifest import LINK, OTHER, changed_below, kind_of, walk, written
from twoarm.run.supervisor.patch import Base, Patches
from twoarm.run.supervisor.process_limit import MOST_PROCESSES, ProcessLimit
from twoarm.run.supervisor.processes import (
    NOT_STARTED,
    Cancelled,
    Lifeline,
    detach,
    sweep,
)
from twoarm.run.supervisor.program import NOT_EXECUTABLE, find_on, why_unfit
from twoarm.run.supervisor.redact import Redactor
from twoarm.run.supervisor.scratch import RunningAttempt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The exit codes of this process: done, told to end, could not write.
DONE, CANCELLED, FAILED = 0, 75, 74

_DIFF, _IGNORED = "diff.patch", "ignored.patch"
# An agent may leave what cannot be read, and names that are the same without a secret; a full disk
# is not its doing.
_UNKEPT = (errno.EACCES, errno.ENAMETOOLONG, errno.EEXIST, errno.ENOTDIR, errno.EINVAL)


def prepare(attempt: RunningAttempt, base: "Base | None") -> int:
    """A copy of the tree, the arm's set-up, the files of HOME; the exit code of the set-up."""
    job = attempt.job
    attempt.work.close()
    attempt.copy(job["tree"], attempt.box, "work")
    attempt.work = attempt.box.enter("work")
    # From here on it is not our own commands alone; a container has a limit of its own, under which
    # the client of its engine would not start.
    most = 0 if job["seal"]["image"] else job["processes"]
    attempt.process_limit.allow(most or MOST_PROCESSES)
    for command in job["setup"]:
        code, _ = attempt.shell(command, "setup", "setup.log", job["setup_seconds"])
        if code:
            return code
    attempt.own_work()
    if job["setup"] and base is not None:
        _commit_again(attempt)
        base.save(attempt.work, job["patch_bytes"])
    attempt.fresh_home()
    return 0


def _commit_again(attempt: RunningAttempt) -> None:
    """What set-up made is part of the one commit that the agent finds."""
    # Named, since a git without a repository would look for one above.
    if attempt.work.is_folder(".git"):
        here = {"GIT_DIR": attempt.work.at(".git"), "GIT_WORK_TREE": attempt.work.path}
        commit = ("commit", "-q", "--amend", "--no-edit", "--allow-empty", "--reset-author")
        for words in (("add", "-A"), commit):
            attempt.git(words, here, attempt.work)


def _is_here(attempt: RunningAttempt, program: str) -> bool:
    """Whether a program can be looked at; what is in an image was, before the first trial."""
    job = attempt.job
    if not job["seal"]["image"]:
        return True
    ours = (attempt.work.path, job["build"])
    # A link may lead to what only the image has.
    return program.startswith(tuple(f"{at}/" for at in ours if at)) and not os.path.islink(program)


def run_agent(attempt: RunningAttempt) -> "dict[str, Any]":
    """The agent from start to end, then what it left; or why it could not be started."""
    job = attempt.job
    env = attempt.env("agent")
    program = job["argv"][0]
    # A sandbox in front of it would start, and fail in the agent's name.
    if _is_here(attempt, program) and (unfit := why_unfit(find_on(env.get("PATH", ""), program))):
        return {"not_started": f"{program}: {unfit}"}
    with open(attempt.temporary.create("prompt.txt"), "wb") as file:
        file.write(job["prompt"].encode())
    # Open before the agent starts, and so none of its business.
    for name in (_DIFF, _IGNORED, "acceptance.log"):
        attempt.log(name)
    started = time.time()
    try:
        code, why, seconds = attempt.steps.run(
            list(job["argv"]),
            env,
            attempt.work.descriptor,
            (None, attempt.log(job["output"]), attempt.log("stderr.log")),
            job["timeout_seconds"],
            job["output_bytes"],
            attempt.isolated("agent"),
        )
    finally:
        _clear_engines(attempt, env)
    if why == NOT_STARTED:
        return {"not_started": attempt.steps.refused}
    # Said too late, or obeyed: what follows is not the agent.
    attempt.steps.lifeline.word = ""
    used = {} if job["seal"]["image"] else _measured()
    for number, after in enumerate(job["after"]):
        run_after(attempt, after, number)
    attempt.keep_files()
    return {
        "agent_exit_code": code,
        "ended_by": why,
        # By one clock: the other may be set while the agent runs.
        "duration_seconds": round(seconds, 3),
        "started_at_utc": utc(started),
        "ended_at_utc": utc(started + seconds),
        **used,
    }


def _measured() -> "dict[str, Any]":
    """What the agent took of the machine; an engine of containers starts it beside us."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 3),
        "peak_rss_mb": used.ru_maxrss // (1 << 20 if sys.platform == "darwin" else 1 << 10),
    }


def _clear_engines(attempt: RunningAttempt, env: "dict[str, str]") -> None:
    """What engines of containers still have of the agent is removed, whatever its end was."""
    if attempt.job["engines"]:
        from twoarm.run.supervisor.leftovers import remove_named

        marker = attempt.job["marker"]
        attempt.steps.leftovers += remove_named(attempt.job["engines"], marker, env)
        # A client may have left a helper.
        sweep(marker)


def utc(moment: float) -> str:
    """A time as the sidecar spells it."""
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment))
    return f"{whole}.{int(moment % 1 * 1000):03d}Z"


def run_after(attempt: RunningAttempt, after: "dict[str, Any]", number: int) -> None:
    """A command for each match in a kept file, each with its own output."""
    matches = [""]
    if after["pattern"] is not None:
        import re

        descriptor = attempt.log(after["source"])
        os.lseek(descriptor, 0, os.SEEK_SET)
        with open(descriptor, "rb", closefd=False) as file:
            text = file.read(attempt.job["output_bytes"]).decode("utf-8", "replace")
        matches = list(dict.fromkeys(re.findall(after["pattern"], text)))[: after["most"]]
    for at, match in enumerate(matches):
        name = after["output"] if at == 0 else after["more"]
        if name is None:
            return
        name = name.replace("{match}", match)
        try:
            output = attempt.log(name)
        except OSError:
            # The agent left no place to keep it.
            return
        try:
            code, why, _ = attempt.steps.run(
                [part.replace("{match}", match) for part in after["argv"]],
                attempt.env("agent"),
                attempt.work.descriptor,
                (None, output, attempt.log(f"after{number}.log")),
                after["seconds"],
                attempt.job["output_bytes"],
                attempt.isolated("agent"),
            )
        except IsolationError:
            # The agent itself has ended well before.
            code, why = NOT_EXECUTABLE, NOT_STARTED
        if (code, why) != (0, "exit"):
            # Half an output would make the whole run unreadable, and that the agent's failure.
            attempt.drop(name)


def accept(attempt: RunningAttempt, base: "Base | None", redactor: Redactor) -> "dict[str, Any]":
    """Acceptance, with the tests as they were and none of the agent's variables."""
    job = attempt.job
    attempt.own_work()
    if job["restore"]:
        with OpenFolder(job["tree"]) as tree:
            for path in job["restore"]:
                if base is not None and (changed := changed_below(tree, path, base.untouched)):
                    return {"tree_changed": written(changed)}
                _restore(attempt, tree, path)
    attempt.clean_home = attempt.own.made(f"home-{os.urandom(6).hex()}")
    attempt.clean_home.made("tmp").close()
    return grade(attempt, redactor)


def _restore(attempt: RunningAttempt, tree: OpenFolder, path: str) -> None:
    """A path as it was, whatever the agent put there or on the way."""
    above, name = attempt.work.parent_of(path, make=True, replace=True)
    with above:
        source, last = tree.parent_of(path)
        with source:
            if source.look(last) is None:
                above.remove(name)
            else:
                attempt.copy(source.at(last), above, name)


def keep_workspace(work: OpenFolder, kept: OpenFolder, redactor: Redactor, most: int) -> None:
    """The files of a workspace, without its history and without what cannot be kept."""
    for here, name, status, path in walk(work, history=False):
        shown = "/".join(map(redactor.text, path.split("/")))
        try:
            above, last = kept.parent_of(shown, make=True)
            with above:
                if kind_of(status) == LINK:
                    leads = redactor.text(os.readlink(name, dir_fd=here.descriptor))
                    os.symlink(leads, last, dir_fd=above.descriptor)
                elif kind_of(status) != OTHER:
                    with (
                        open(here.open(name), "rb") as file,
                        open(above.create(last), "wb") as made,
                    ):
                        redactor.copy(file, made, most)
        except OSError as error:
            if error.errno not in _UNKEPT:
                raise


def hand_over(attempt: RunningAttempt, facts: "dict[str, Any]", redactor: Redactor) -> None:
    """The kept files, redacted, into the folder of the attempt; `outcome` is the last."""
    job = attempt.job
    os.chdir("/")
    failed = facts.get("acceptance_exit_code") != 0 or facts.get("ended_by") != "exit"
    # First of all, so that a disk which the agent filled has room for what it did.
    if job["keep_workspace"] == "all" or (job["keep_workspace"] == "failed" and failed):
        with attempt.folder.made("workspace") as kept:
            keep_workspace(attempt.work, kept, redactor, job["output_bytes"])
    attempt.box.clear("work")
    sizes = {}
    for name, descriptor in sorted(attempt.kept.items()):
        os.lseek(descriptor, 0, os.SEEK_SET)
        mode = 0o600 if name == _IGNORED else 0o644
        with (
            open(descriptor, "rb", closefd=False) as file,
            open(attempt.folder.create(name, mode), "wb") as made,
        ):
            # A patch has a limit of its own, and half of one is none.
            whole = name in (_DIFF, _IGNORED)
            most = os.fstat(descriptor).st_size if whole else job["output_bytes"]
            redactor.copy(file, made, most)
            sizes[name] = made.tell()
    facts["files"] = sizes
    facts["leftovers"] = [redactor.text(name) for name in attempt.steps.leftovers[:20]]
    with open(attempt.folder.create("outcome.tmp"), "wb") as file:
        file.write(marshal.dumps(facts))
    attempt.folder.remove("outcome")
    attempt.folder.rename("outcome.tmp", attempt.folder, "outcome")


def run(job: "dict[str, Any]", attempt: RunningAttempt) -> None:
    """A whole attempt; or, without an agent, its set-up and acceptance alone.

    What another agent left may be put back in between.
    """
    begun = time.monotonic()
    redactor = Redactor(job["secrets"])
    os.write(attempt.log("prompt.txt"), job["prompt"].encode())
    base = None
    if job["manifest"]:
        try:
            # What the agent starts from, read before it does.
            with open(job["manifest"], "rb") as file:
                manifest = marshal.load(file)
            base = Base(OpenFolder(job["tree"]), manifest, attempt.own.made("base"))
        except (OSError, ValueError, EOFError, TypeError):
            # What says what is in the tree is not there, or not what it was.
            hand_over(attempt, {"setup_exit_code": 0, "tree_changed": "all of it"}, redactor)
            return
    try:
        facts = _taken(attempt, base, redactor)
    except IsolationError as error:
        facts = {"setup_exit_code": 0, "not_started": str(error)}
    facts["attempt_seconds"] = round(time.monotonic() - begun, 3)
    made = not facts["setup_exit_code"] and "not_started" not in facts
    if job["result"] is not None and made:
        os.chdir("/")
        os.rename(attempt.work.path, job["result"])
    hand_over(attempt, facts, redactor)


def _taken(attempt: RunningAttempt, base: "Base | None", redactor: Redactor) -> "dict[str, Any]":
    """Every step, as far as the one before it has come."""
    job = attempt.job
    facts: dict[str, Any] = {"setup_exit_code": prepare(attempt, base)}
    if not facts["setup_exit_code"] and job["argv"]:
        facts |= run_agent(attempt)
    ready = not facts["setup_exit_code"] and "not_started" not in facts
    if ready and job["patches"]:
        from twoarm.run.supervisor.put_back import put_back

        why = put_back(attempt.own, attempt.work, attempt.git, job["patches"])
        if why is not None:
            ready, facts["not_put_back"] = False, why
    if ready and job["acceptance"]:
        try:
            facts |= _checked(attempt, base, redactor)
        except IsolationError as error:
            facts["not_judged"] = str(error)
    return facts


def _checked(attempt: RunningAttempt, base: "Base | None", redactor: Redactor) -> "dict[str, Any]":
    """The change and acceptance; if an agent broke its own folders, the failure is its own."""
    facts: dict[str, Any] = {}
    try:
        if base is not None and attempt.job["argv"]:
            attempt.own_work()
            most = attempt.job["patch_bytes"]
            patches = Patches(attempt.own, most, attempt.git, redactor.holds, redactor.text)
            log = attempt.log
            facts["patch"] = patches.write(attempt.work, base, log(_DIFF), log(_IGNORED))
            if not os.fstat(log(_IGNORED)).st_size:
                attempt.drop(_IGNORED)
        return facts | accept(attempt, base, redactor)
    except OSError as error:
        return facts | not_graded(attempt.job, error.strerror)


def main(process_limit: ProcessLimit) -> None:
    """Read the job, obey it, leave nothing and nobody behind."""
    detach()
    lifeline = Lifeline()
    code, attempt = DONE, None
    with open(int(sys.argv[-2]), "rb") as file:
        job = marshal.load(file)
    try:
        above = OpenFolder(os.path.dirname(job["scratch"]), int(sys.argv[-1]))
        attempt = RunningAttempt(job, lifeline, above, process_limit)
        run(job, attempt)
    except Cancelled:
        code = CANCELLED
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        sys.stdout.write(f"{error.strerror or error}{where}")
        sys.stdout.flush()
        code = FAILED
    finally:
        os.chdir("/")
        try:
            if attempt is not None:
                attempt.clear()
        except OSError as error:
            # It is in the cache, and the runner clears that; the run itself is safe.
            sys.stderr.write(f"{error}\n")
    # Nothing of the interpreter is worth tearing down.
    os._exit(code)
