"""Suite files in: TOML or JSON, every problem with its file and key, and what would do."""

import os
import tomllib
from collections.abc import Iterator, Mapping
from itertools import combinations
from math import isfinite
from typing import Any

import msgspec
from msgspec import UNSET

from twoarm.errors import InputError, Position, Problem, UsageError
from twoarm.programs.agent import why_unknown
from twoarm.programs.settings import NO_FORMAT, Program
from twoarm.programs.uptake import Pattern
from twoarm.run.harbor_tasks import HARBOR, Spelled, expand, misplaced
from twoarm.run.mismatches import mismatches
from twoarm.run.shown import around_patterns, named_in
from twoarm.run.suite import (
    PLACEHOLDERS,
    Arm,
    Suite,
    SuiteTask,
    Workspace,
    fill_shell,
    placeholders,
)
from twoarm.runs.record import MOST_CHECKS
from twoarm.text.escape import in_toml, named, visible

# A suite is written by people; nothing longer is one.
LARGEST_FILE = 64 * 2**20


class SuiteError(InputError):
    """A suite that cannot be run, with every reason."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__("\n".join(map(str, problems)))


class CheckedSuite(msgspec.Struct, frozen=True, kw_only=True):
    """A suite that was read and checked: prompts are texts, and nothing is left to look up."""

    # The file, and the folder that its paths are relative to.
    path: str
    folder: str
    suite: Suite
    agent: Program
    workspace: Workspace
    baseline: str
    candidates: tuple[str, ...]
    tasks: tuple[SuiteTask, ...]
    prompts: dict[str, str]
    # A copy of the folder that commands are shown in its place; nothing for the folder itself.
    copied: str = ""

    @property
    def shown(self) -> str:
        """The folder of the suite as commands know it."""
        return self.copied or self.folder

    @property
    def suite_id(self) -> str:
        """As the suite says, or after its file."""
        return self.suite.suite_id or os.path.splitext(os.path.basename(self.path))[0]

    @property
    def of_harbor(self) -> bool:
        """Whether its tasks are Harbor's: they have no workspace and no acceptance of ours."""
        return self.agent.program == HARBOR

    @property
    def arms(self) -> dict[str, Arm]:
        """The arms, by name."""
        return self.suite.arms

    def acceptance(self, task: SuiteTask) -> dict[str, str]:
        """The commands of a task by the names of their checks, with placeholders filled in."""
        return {name: self.in_shell(text) for name, text in task.acceptance.items()}

    def in_shell(self, command: str, build: str = "{build}") -> str:
        """A shell command with its placeholders filled in."""
        return fill_shell(command, {"suite": self.shown, "workspace": ".", "build": build})

    def graders(self, task: SuiteTask) -> list[str]:
        """What acceptance commands name in the folder of the suite."""
        return sorted(self._graders(task) - {self.shown})

    def graded_by_all(self, task: SuiteTask) -> bool:
        """Whether what grades a task may be anything in the folder of the suite."""
        return self.shown in self._graders(task)

    def _graders(self, task: SuiteTask) -> set[str]:
        commands, folder = [*self.acceptance(task).values()], self.shown
        return {*named_in(commands, folder), *around_patterns(commands, folder)}

    def at(self, path: str) -> str:
        """A path of the suite, from wherever we are."""
        return os.path.normpath(os.path.join(self.folder, os.path.expanduser(path)))

    def shown_at(self, path: str) -> str:
        """The same, of what lies beside the suite, as commands know it."""
        return os.path.normpath(os.path.join(self.shown, os.path.expanduser(path)))


def read_suite(path: str) -> CheckedSuite:
    """A suite file, with the tasks that it takes from another one."""
    suite = _decoded(path)
    folder = os.path.dirname(os.path.abspath(path))
    spelled: list[Spelled] = []
    if suite.tasks_from is not None:
        other = os.path.join(folder, suite.tasks_from)
        other_suite = _decoded(other)
        if other_suite.tasks_from is not None:
            raise SuiteError([_problem(other, "tasks_from", "tasks are taken from one file only")])
        spelled += [Spelled(other, i, task) for i, task in enumerate(other_suite.tasks)]
    spelled += [Spelled(path, i, task) for i, task in enumerate(suite.tasks)]
    tasks, prompts, mistakes = expand(spelled, folder)
    mistakes += misplaced(path, suite, tasks)
    problems = [*_parts(path, suite), *_arms(path, suite, folder)]
    problems += [_problem(*mistake) for mistake in mistakes]
    problems += _tasks(path, suite, tasks if tasks or not mistakes else spelled)
    others, missing = _prompts(path, suite, folder, tasks)
    problems += missing
    if problems or suite.agent is None:
        raise SuiteError(problems)
    baseline = suite.baseline or ""
    return CheckedSuite(
        path=os.path.abspath(path),
        folder=folder,
        suite=suite,
        agent=suite.agent,
        workspace=suite.workspace or Workspace(),
        baseline=baseline,
        candidates=tuple(arm for arm in suite.arms if arm != baseline),
        tasks=tuple(task for _, _, task in tasks),
        prompts=prompts | others,
    )


def _decoded(path: str) -> Suite:
    shown = visible(path)
    try:
        with open(path, "rb") as file:
            text = file.read(LARGEST_FILE + 1)
    except IsADirectoryError as error:
        message = f"{shown}: a folder, not a suite; name a .toml or .json file"
        raise InputError(message) from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"{shown}: cannot be read: {reason}") from error
    if len(text) > LARGEST_FILE:
        raise InputError(f"{shown}: more than {LARGEST_FILE // 2**20} MiB; not a suite")
    try:
        if path.endswith(".toml"):
            document: Any = tomllib.loads(text.decode("utf-8"))
        else:
            document = msgspec.json.decode(text)
    except UnicodeDecodeError as error:
        raise InputError(f"{shown}: not UTF-8; save the suite as UTF-8") from error
    except (ValueError, RecursionError) as error:
        kind = "TOML" if path.endswith(".toml") else "JSON (a TOML file ends in .toml)"
        raise InputError(f"{shown}: not {kind}: {visible(str(error))}") from error
    problems = [_problem(path, key, message) for key, message in mismatches(document, Suite, "")]
    if problems:
        raise SuiteError(problems)
    return msgspec.convert(document, Suite)


def _problem(path: str, key: str, message: str) -> Problem:
    return Position(visible(path)).problem(message, visible(key) or None)


def _parts(path: str, suite: Suite) -> Iterator[Problem]:
    """What must be there besides tasks and arms, and fit together."""
    folder = os.path.dirname(os.path.abspath(path))
    if suite.agent is None:
        yield _problem(path, "agent", 'missing; write [agent] with program = "claude-code"')
    else:
        yield from _program(path, suite.agent)
    if suite.agent is not None and suite.agent.program == HARBOR:
        pass
    elif suite.workspace is None:
        yield _problem(path, "workspace", "missing; write [workspace] with repo or copy")
    elif (suite.workspace.repo is None) == (suite.workspace.copy is None):
        yield _problem(path, "workspace", "write either repo or copy")
    else:
        key = "repo" if suite.workspace.copy is None else "copy"
        place = suite.workspace.repo or suite.workspace.copy or ""
        if not os.path.isdir(os.path.join(folder, os.path.expanduser(place))):
            message = f"no folder {named(place)}; paths are relative to the suite"
            yield _problem(path, f"workspace.{key}", message)
    if suite.workspace is not None and suite.workspace.image and suite.workspace.dockerfile:
        yield _problem(path, "workspace", "write either image or dockerfile")
    dockerfile = suite.workspace.dockerfile if suite.workspace is not None else None
    if dockerfile and not os.path.isfile(os.path.join(folder, os.path.expanduser(dockerfile))):
        message = f"no file {named(dockerfile)}; paths are relative to the suite"
        yield _problem(path, "workspace.dockerfile", message)
    yield from _uptake(path, "uptake", suite.uptake)
    limits = suite.limits
    if limits.trial_usd and limits.budget_usd and limits.trial_usd > limits.budget_usd:
        yield _problem(path, "limits.trial_usd", "more than budget_usd; no trial could start")


def _program(path: str, agent: Program) -> Iterator[Problem]:
    if unknown := why_unknown(agent.program):
        yield _problem(path, "agent.program", unknown)
    elif agent.program == "command":
        if not agent.argv:
            yield _problem(path, "agent.argv", "missing; write the program and its arguments")
        if agent.format in (None, NO_FORMAT) and agent.output is not None:
            yield _problem(path, "agent.format", "missing; say how collect reads the output")
        if agent.format not in (None, NO_FORMAT) and agent.output is None:
            yield _problem(path, "agent.output", "missing; name the file of the output")
    else:
        for key in ("argv", "output", "format"):
            if getattr(agent, key):
                yield _problem(path, f"agent.{key}", 'only with program = "command"; use args')
    if agent.program != HARBOR:
        for key in ("scorer", "threshold"):
            if getattr(agent, key) is not UNSET:
                yield _problem(path, f"agent.{key}", 'only with program = "harbor"')
    elif not isfinite(agent.threshold or 0.0):
        yield _problem(path, "agent.threshold", "expected a number")
    texts = {"argv": agent.argv, "args": agent.args, "env": tuple(agent.env.values())}
    yield from _undefined(path, "agent", texts)


def _undefined(path: str, key: str, texts: Mapping[str, tuple[str, ...]]) -> Iterator[Problem]:
    """Placeholders that nobody defines."""
    for name, parts in texts.items():
        for text in parts:
            for word in placeholders(text):
                if word not in PLACEHOLDERS:
                    message = (
                        f"no placeholder `{{{word}}}`; there are {', '.join(PLACEHOLDERS)}; "
                        f"write `{{{{{word}}}}}` for the text itself"
                    )
                    yield _problem(path, f"{key}.{name}", message)


def _arms(path: str, suite: Suite, folder: str) -> Iterator[Problem]:
    names = ", ".join(map(named, suite.arms))
    if len(suite.arms) < 2:
        message = f"expected two arms or more, found {names or 'none'}; write [arms.NAME] for each"
        yield _problem(path, "arms", message)
        return
    for (name, first), (other, second) in combinations(suite.arms.items(), 2):
        if _treatment(first) == _treatment(second):
            message = f"{named(name)}, {named(other)} do not differ; a comparison needs a change"
            yield _problem(path, "arms", message)
        if name.lower() == other.lower():
            message = f"{named(name)}, {named(other)} differ only in case; rename one"
            yield _problem(path, "arms", message)
    if suite.baseline is None:
        yield _problem(path, "baseline", f"missing; name the arm without the change: {names}")
    elif suite.baseline not in suite.arms:
        message = f"no arm {named(suite.baseline)}; arms are {names}"
        yield _problem(path, "baseline", message)
    for name, arm in suite.arms.items():
        key = f"arms.{name}"
        texts = {
            "args": arm.args,
            "env": tuple(arm.env.values()),
            "prompt_template": (arm.prompt_template or "",),
        }
        yield from _undefined(path, key, texts)
        if arm.build_commands and arm.source is None:
            message = "without a source; name the repository to build"
            yield _problem(path, f"{key}.build_commands", message)
        yield from _uptake(path, f"{key}.uptake", arm.uptake)
        yield from _overlays(path, key, {"files": arm.files, "home": arm.home}, folder)
        for place in arm.remove:
            if not inside(place):
                yield _problem(path, f"{key}.remove", _OUTSIDE.format(named(place)))
    if suite.agent is not None:
        yield from _overlays(path, "agent", {"home": suite.agent.home}, folder)
        homes = {"agent": suite.agent.home}
        homes |= {f"arms.{name}": arm.home for name, arm in suite.arms.items()}
        for key, home in homes.items():
            for place in home:
                if link := _link_on_the_way(place, {**suite.agent.home, **home}, folder):
                    message = f"it would be put through {named(link)}, a link; put a folder there"
                    yield _problem(path, f"{key}.home.{place}", message)


def _treatment(arm: Arm) -> Arm:
    """What an arm does to its runs: what is counted in them is not part of it."""
    return msgspec.structs.replace(arm, uptake=())


def _uptake(path: str, key: str, patterns: tuple[str, ...]) -> Iterator[Problem]:
    for i, text in enumerate(patterns):
        try:
            Pattern(text)
        except UsageError as error:
            yield _problem(path, f"{key}[{i}]", str(error))


_OUTSIDE = "{} is not a path inside; write it relative, without `.`, `..` and `.git`"


def inside(path: str) -> bool:
    """Whether a path stays inside the folder it is relative to, and out of its .git."""
    parts = path.rstrip("/").split("/")
    return parts[0] != ".git" and not any(p in ("", ".", "..") or "\0" in p for p in parts)


def _link_on_the_way(place: str, entries: Mapping[str, str], folder: str) -> str | None:
    """A link in a folder of HOME that another entry puts there, and that leads to a place."""
    for outer, source in entries.items():
        rest = place.rstrip("/").removeprefix(f"{outer.rstrip('/')}/")
        if rest == place.rstrip("/"):
            continue
        at = os.path.realpath(os.path.join(folder, os.path.expanduser(source)))
        for part in rest.split("/")[:-1]:
            at = os.path.join(at, part)
            if os.path.islink(at):
                return at
    return None


def _overlays(
    path: str, key: str, tables: Mapping[str, Mapping[str, str]], folder: str
) -> Iterator[Problem]:
    for table, entries in tables.items():
        for place, source in entries.items():
            if not inside(place):
                yield _problem(path, f"{key}.{table}", _OUTSIDE.format(named(place)))
            if not os.path.exists(os.path.join(folder, os.path.expanduser(source))):
                message = f"no file {named(source)}; paths are relative to the suite"
                if table == "files":
                    gone = f"remove = [{in_toml(place)}]"
                    message += f"; if the change is to have no such file, write {gone} instead"
                yield _problem(path, f"{key}.{table}.{place}", message)


def _tasks(path: str, suite: Suite, tasks: list[Spelled]) -> Iterator[Problem]:
    if not tasks:
        yield _problem(path, "tasks", "no tasks; write [[tasks]] or tasks_from")
    seen: dict[str, str] = {}
    for file, i, task in tasks:
        if not task.id and task.harbor is None:
            yield _problem(file, f"tasks[{i}].id", "missing")
        first = seen.setdefault(task.id.lower(), task.id)
        if first is not task.id:
            yield _problem(file, f"tasks[{i}].id", f"{named(task.id)} appears twice")
        if task.harbor is not None:
            continue
        if (task.acceptance_command is None) == (not task.acceptance_commands):
            message = "write either acceptance_command or acceptance_commands"
            yield _problem(file, f"tasks[{i}]", message)
        if len(task.acceptance_commands) > MOST_CHECKS:
            message = f"{len(task.acceptance_commands)} commands; at most {MOST_CHECKS}"
            yield _problem(file, f"tasks[{i}].acceptance_commands", message)
        for place in (*task.acceptance_files, *suite.acceptance_files):
            if not inside(place):
                yield _problem(file, f"tasks[{i}].acceptance_files", _OUTSIDE.format(named(place)))


def _prompts(
    path: str, suite: Suite, folder: str, tasks: list[Spelled]
) -> tuple[dict[str, str], list[Problem]]:
    """The prompt of each task, looked up beside its file and then in the repository."""
    prompts: dict[str, str] = {}
    problems = []
    place = suite.workspace and (suite.workspace.repo or suite.workspace.copy)
    for file, i, task in tasks:
        if task.harbor is not None:
            continue
        if (task.prompt is None) == (task.prompt_file is None):
            message = "write either prompt or prompt_file"
            problems.append(_problem(file, f"tasks[{i}]", message))
            continue
        if task.prompt is not None:
            prompts[task.id] = task.prompt
            continue
        assert task.prompt_file is not None
        roots = [os.path.dirname(os.path.abspath(file))]
        if place:
            roots.append(os.path.join(folder, os.path.expanduser(place)))
        try:
            prompts[task.id] = _first(roots, task.prompt_file)
        except (OSError, ValueError):
            message = (
                f"{named(task.prompt_file)} is missing or empty; it belongs next to the suite or "
                "in the repository"
            )
            problems.append(_problem(file, f"tasks[{i}].prompt_file", message))
    return prompts, problems


def _first(roots: list[str], name: str) -> str:
    """The first of the files that is there, as text."""
    for root in roots:
        path = os.path.join(root, name)
        if os.path.isfile(path) or root == roots[-1]:
            with open(path, encoding="utf-8") as file:
                text = file.read(LARGEST_FILE)
            if not text.strip() or "\0" in text:
                raise ValueError("no prompt")
            return text
    raise FileNotFoundError(name)
