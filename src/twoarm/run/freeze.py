"""From a suite to a schedule: what it means today, digested, so that it cannot change unseen."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256

import msgspec

from twoarm._version import __version__
from twoarm.errors import InputError, UsageError
from twoarm.programs.agent import Agent
from twoarm.programs.version import numbers
from twoarm.run.beside import beside_digests
from twoarm.run.parts import first_part
from twoarm.run.schedule import SCHEMA, Frozen, task_keys
from twoarm.run.shown import lies
from twoarm.run.suite import SuiteTask, fill, placeholders
from twoarm.run.suite_file import CheckedSuite
from twoarm.run.supervisor.program import why_unfit
from twoarm.run.tree import check_root, commit_of, file_digest, tree_digest
from twoarm.text.escape import named, visible
from twoarm.text.sentence import listed

_VERSION_SECONDS = 30


class ProgramFile(msgspec.Struct, frozen=True, kw_only=True):
    """The program on this machine."""

    path: str
    digest: str
    version: str | None


def find_program(agent: Agent, checked: CheckedSuite, path: str | None = None) -> ProgramFile:
    """The agent's program, its version, and whether that will do; `path` is another PATH."""
    looked_up = os.environ.get("PATH", os.defpath) if path is None else path
    name = agent.executable
    # What is in a workspace or built by an arm is looked up once that is made.
    if set(placeholders(name)) - {"suite"}:
        return ProgramFile(path=name, digest="", version=None)
    name = fill(name, {"suite": checked.shown})
    path = checked.shown_at(name) if os.sep in name else shutil.which(name, path=looked_up)
    # A copy of the suite comes with the first trial, and was made of what had been looked at.
    if path is not None and checked.copied and lies(path, checked.copied):
        return ProgramFile(path=path, digest="", version=None)
    if path is None:
        raise InputError(
            f"agent {named(agent.name)}: no program {named(name)} on PATH; install it, "
            "or put the folder it is in on PATH"
        )
    if unfit := why_unfit(path):
        raise InputError(f"agent {named(agent.name)}: {visible(path)}: {visible(unfit)}")
    printed = ""
    if agent.name != "command":
        done = asked(path, ("--version",), looked_up, getattr(agent, "quiet", {}))
        printed = (done.stdout + done.stderr).decode("utf-8", "replace")
    version = accepted_version(agent, path, printed)
    return ProgramFile(path=path, digest=file_digest(path), version=version)


def accepted_version(agent: Agent, path: str, printed: str) -> str | None:
    """The version in what a program prints; refused if it is too old, or not told."""
    version = agent.version(printed) if printed else None
    if agent.oldest is not None:
        if version is None:
            raise InputError(
                f"agent {named(agent.name)}: {visible(path)} does not report its version"
            )
        if numbers(version) < numbers(agent.oldest):
            raise InputError(
                f"agent {named(agent.name)}: {visible(path)} is {version}; "
                f"the oldest supported version is {agent.oldest}"
            )
    return version


def asked(
    path: str, words: Sequence[str], looked_up: str, quiet: Mapping[str, str]
) -> subprocess.CompletedProcess[bytes]:
    """What a program says of itself, in a HOME of its own."""
    with tempfile.TemporaryDirectory(prefix="twoarm-") as home:
        env = {"PATH": looked_up, "HOME": home, "TMPDIR": home, **quiet}
        try:
            return subprocess.run(
                [path, *words],
                env=env,
                cwd=home,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_VERSION_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InputError(f"{visible(path)} {words[-1]}: {visible(str(error))}") from error


def choose_tasks(
    checked: CheckedSuite, only: Sequence[str], tags: Sequence[str]
) -> list[SuiteTask]:
    """The tasks that were asked for, in the order of the suite."""
    known = {task.id for task in checked.tasks}
    for name in only:
        if name not in known:
            listing = ", ".join(map(named, sorted(known)[:20]))
            raise UsageError(f"--only: no task {named(name)}; tasks are {listing}")
    chosen = [task for task in checked.tasks if not only or task.id in only]
    chosen = [task for task in chosen if not tags or set(tags) & set(task.tags)]
    if not chosen:
        raise UsageError("no task is left; see --only and --tag")
    return chosen


class Commits(msgspec.Struct, frozen=True, kw_only=True):
    """What trials start from: the workspace, and the sources of the arms."""

    # A commit, or the digest of the folder that is copied; nothing for tasks of Harbor.
    origin: str
    sources: dict[str, str]

    @property
    def by_key(self) -> dict[str, str]:
        """What each ref of a suite means."""
        sources = {f"arms.{name}.source.ref": commit for name, commit in self.sources.items()}
        return {"workspace.ref": self.origin, **sources}


def commits_of(checked: CheckedSuite, earlier: Frozen | None) -> Commits:
    """What the refs of a suite mean now, or meant when an earlier schedule was frozen.

    Work may have gone on in the repositories since.
    """
    place = checked.workspace
    ref, refs = (place.ref, {}) if earlier is None else (earlier.origin, earlier.sources)
    if place.repo is not None:
        check_root(checked.at(place.repo))
        origin = commit_of(checked.at(place.repo), ref)
    else:
        origin = tree_digest(checked.at(place.copy)) if place.copy is not None else ""
    sources = {
        name: commit_of(checked.at(arm.source.repo), refs.get(name, arm.source.ref))
        for name, arm in checked.arms.items()
        if arm.source is not None
    }
    return Commits(origin=origin, sources=sources)


def freeze(
    checked: CheckedSuite,
    version: str | None,
    tasks: Sequence[SuiteTask],
    repeats: int,
    seed: int,
    commits: Commits,
    earlier: Frozen | None = None,
) -> Frozen:
    """The schedule of a suite, at these commits.

    Of what is named beside the suite, only what an earlier schedule knows: one that was made before
    such digests were kept has none, and agents may have made files since.
    """
    beside = dict(beside_digests(checked, tasks))
    if earlier is not None:
        beside = {key: digest for key, digest in beside.items() if key in earlier.digests}
    return Frozen(
        schema=SCHEMA,
        twoarm=__version__,
        suite_id=checked.suite_id,
        suite=msgspec.structs.replace(checked.suite, tasks_from=None, tasks=tuple(tasks)),
        version=version,
        origin=commits.origin,
        digests=beside | dict(_digests(checked, tasks)),
        candidates=checked.candidates,
        baseline=checked.baseline,
        sources=commits.sources,
        seed=seed,
        repeats=repeats,
        parts=(first_part([task.id for task in tasks], tuple(checked.arms), repeats, seed),),
    )


def _digests(checked: CheckedSuite, tasks: Sequence[SuiteTask]) -> Iterator[tuple[str, str]]:
    """Everything else that the suite names and does not hold."""
    for task in tasks:
        prompt, _, acceptance, folder = task_keys(task.id)
        yield prompt, sha256(checked.prompts[task.id].encode()).hexdigest()
        if files := checked.graders(task):
            yield acceptance, _digest_of(files)
        if task.harbor is not None:
            yield folder, tree_digest(checked.at(task.harbor))
    for name, arm in sorted(checked.arms.items()):
        for path, source in sorted(arm.files.items()):
            yield f"arms.{name}.files.{path}", tree_digest(checked.at(source))
    for key, source in _homes(checked):
        yield key, tree_digest(source)
    if checked.suite.limits.prices is not None:
        yield "limits.prices", tree_digest(checked.at(checked.suite.limits.prices))


def _homes(checked: CheckedSuite) -> Iterator[tuple[str, str]]:
    """By key, what every trial copies into its HOME."""
    homes = {"agent.home": checked.agent.home}
    homes |= {f"arms.{name}.home": arm.home for name, arm in sorted(checked.arms.items())}
    for key, entries in homes.items():
        for path, source in sorted(entries.items()):
            yield f"{key}.{path}", checked.at(source)


def _digest_of(files: Sequence[str]) -> str:
    """The digest of what grades a task; what Python keeps of it is no part of it."""
    digests = (tree_digest(path, without_runs=True) for path in files)
    return sha256("".join(digests).encode()).hexdigest()


def changed_graders(checked: CheckedSuite, frozen: Frozen) -> Iterator[str]:
    """What grades runs, and is no longer what was frozen."""
    for task in frozen.suite.tasks:
        key, files = task_keys(task.id)[2], checked.graders(task)
        if key in frozen.digests and frozen.digests[key] != _digest_of(files):
            names = listed([os.path.relpath(path, checked.shown) for path in files], 3)
            yield f"what grades task {named(task.id)} ({names or 'gone'})"


def changed_in_use(checked: CheckedSuite, frozen: Frozen) -> Iterator[str]:
    """What starts agents or is copied for them, and is no longer what was frozen."""
    keys = [f"agent.{key}." for key in ("argv", "args", "env", "home")]
    for arm in checked.arms:
        own = ("args", "env", "prompt_template", "setup_commands", "home")
        keys += [f"arms.{arm}.{key}." for key in own]
    now = dict(beside_digests(checked, frozen.suite.tasks))
    now |= {key: tree_digest(path) for key, path in _homes(checked) if os.path.exists(path)}
    for key, digest in frozen.digests.items():
        if key.startswith(tuple(keys)) and now.get(key) != digest:
            yield visible(key)
