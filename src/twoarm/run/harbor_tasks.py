"""Tasks of Harbor: a folder with everything in it, which Harbor sets up, runs and verifies."""

import os
import tomllib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from twoarm.programs.settings import Slug
from twoarm.run.suite import Suite, SuiteTask
from twoarm.text.escape import named, visible

# The value of `agent.program`.
HARBOR = "harbor"

_CONFIG, _PROMPT, _STEPS = "task.toml", "instruction.md", "steps"
# A prompt is written by people, or for them.
_LONGEST_PROMPT = 64 * 2**20
# What a task of Harbor brings itself.
_OF_TASK = (
    *("prompt", "prompt_file", "acceptance_command", "acceptance_commands", "acceptance_files"),
    *("setup_commands", "image"),
)
# What an arm could change in a workspace of ours.
_OF_ARM = ("files", "remove", "prompt_template", "setup_commands")
# Options of `harbor trial start` that are given for each trial, with their values as words of their
# own or, behind a short one, in the same word.
_OWN_OPTIONS = ("--path", "--trial-name", "--trials-dir", "--task-git-url", "--task-git-commit")
_OWN_SHORT = "-p"


class Spelled(NamedTuple):
    """A task, and where a suite spells it: the file, and the position in its `tasks`."""

    file: str
    at: int
    task: SuiteTask


class Mistake(NamedTuple):
    """What is wrong with a suite: the file, the key, and what would do."""

    file: str
    key: str
    message: str


class Expanded(NamedTuple):
    """Tasks with each one of Harbor's on its own, and the prompts of those."""

    tasks: list[Spelled]
    prompts: dict[str, str]
    mistakes: list[Mistake]


def expand(tasks: Sequence[Spelled], folder: str) -> Expanded:
    """Every task on its own; `folder` is that of the suite, which paths are made relative to."""
    made = Expanded([], {}, [])
    for spelled in tasks:
        if spelled.task.harbor is None:
            made.tasks.append(spelled)
            continue
        key = f"tasks[{spelled.at}]"
        for name in _OF_TASK:
            if getattr(spelled.task, name):
                message = "a task of Harbor brings its own; leave it out"
                made.mistakes.append(Mistake(spelled.file, f"{key}.{name}", message))
        try:
            for task, prompt in _found(spelled, folder):
                made.tasks.append(Spelled(spelled.file, spelled.at, task))
                made.prompts[task.id] = prompt
        except _UnfitError as unfit:
            made.mistakes.append(Mistake(spelled.file, f"{key}.{unfit.key}", str(unfit)))
    return made


class _UnfitError(Exception):
    """Why a folder is not a task that can be run, and the key to change."""

    def __init__(self, message: str, key: str = "harbor") -> None:
        super().__init__(message)
        self.key = key


def _found(spelled: Spelled, folder: str) -> Iterator[tuple[SuiteTask, str]]:
    """The tasks of one entry, each with its prompt."""
    task, place = spelled.task, spelled.task.harbor or ""
    beside = os.path.dirname(os.path.abspath(spelled.file))
    path = os.path.normpath(os.path.join(beside, os.path.expanduser(place)))
    if not os.path.isdir(path):
        raise _UnfitError(f"no folder {named(place)}; paths are relative to the suite")
    if os.path.exists(os.path.join(path, _CONFIG)):
        names = [""]
    else:
        names = list(_tasks_in(path))
        if not names:
            message = f"no task in {named(place)}; each is a folder with {_CONFIG} and {_PROMPT}"
            raise _UnfitError(message)
        if task.id:
            each = f"{named(place)} is a folder of tasks, each with the name of its folder"
            raise _UnfitError(f"{each}; leave it out", "id")
    for name in names:
        at = os.path.join(path, name) if name else path
        own = task.id or os.path.basename(at)
        try:
            msgspec.convert(own, Slug)
        except msgspec.ValidationError:
            message = f"{named(own)} cannot be the id of a task; name this folder alone, with an id"
            raise _UnfitError(message) from None
        _refuse_links(at)
        prompt = _prompt_of(at)
        spelled_path = os.path.join(place, name) if name else place
        if beside != folder:
            spelled_path = os.path.relpath(at, folder)
        yield msgspec.structs.replace(task, id=own, harbor=spelled_path), prompt


def _tasks_in(path: str) -> Iterator[str]:
    """The folders in a folder that are tasks; half of one is a mistake."""
    for name in sorted(os.listdir(path)):
        at = os.path.join(path, name)
        if name.startswith(".") or not os.path.isdir(at):
            continue
        if os.path.exists(os.path.join(at, _CONFIG)):
            yield name
        elif os.path.exists(os.path.join(at, _PROMPT)):
            raise _UnfitError(f"{named(name)} has {_PROMPT} but no {_CONFIG}; write one")


def _config_of(path: str) -> dict[str, Any]:
    try:
        with open(os.path.join(path, _CONFIG), "rb") as file:
            return tomllib.load(file)
    except (OSError, ValueError) as error:
        raise _unreadable(path, _CONFIG, error, "is not TOML") from None


def _prompt_of(path: str) -> str:
    """What the agent of a task is asked, step by step if there are several."""
    steps = _config_of(path).get("steps")
    names = [_PROMPT]
    if isinstance(steps, list) and steps:
        known = [step.get("name") for step in steps if isinstance(step, dict)]
        names = [os.path.join(_STEPS, str(name), _PROMPT) for name in known]
    return "\n".join(_text_of(path, name) for name in names)


def _text_of(path: str, name: str) -> str:
    """What a file of a task asks."""
    try:
        with open(os.path.join(path, name), encoding="utf-8") as file:
            text = file.read(_LONGEST_PROMPT)
    except FileNotFoundError:
        text = ""
    except (OSError, ValueError) as error:
        raise _unreadable(path, name, error, "cannot be read") from None
    where = _shown(path, name)
    if "\0" in text:
        raise _UnfitError(f"{where} has a zero byte in it, which no prompt may have")
    if not text.strip():
        raise _UnfitError(f"{where} is missing or empty; it is what the agent is asked")
    return text


def _unreadable(path: str, name: str, error: OSError | ValueError, malformed: str) -> _UnfitError:
    """Why a file of a task cannot be used."""
    where = _shown(path, name)
    if isinstance(error, UnicodeDecodeError):
        return _UnfitError(f"{where} is not UTF-8; save it as UTF-8")
    if isinstance(error, OSError):
        return _UnfitError(f"{where} cannot be read: {error.strerror}")
    return _UnfitError(f"{where} {malformed}: {visible(str(error))}")


def _shown(path: str, name: str) -> str:
    return named(os.path.join(os.path.basename(path), name))


def _refuse_links(path: str) -> None:
    """Refuse links to elsewhere: what they lead to would not be in the copy, nor in the digest."""
    root = os.path.realpath(path)
    for at, folders, names in os.walk(path):
        for name in (*folders, *names):
            link = os.path.join(at, name)
            leads = os.path.realpath(link)
            if os.path.islink(link) and os.path.commonpath((root, leads)) != root:
                shown = named(os.path.relpath(link, os.path.dirname(path)))
                raise _UnfitError(f"{shown} links out of the task; copy what it leads to")


def misplaced(path: str, suite: Suite, tasks: Sequence[Spelled]) -> Iterator[Mistake]:
    """What does not go together: tasks of Harbor, its program, and a workspace of ours."""
    program = suite.agent and suite.agent.program
    own = '; only with program = "harbor"'
    for file, at, task in tasks:
        if task.harbor is not None and program != HARBOR:
            yield Mistake(file, f"tasks[{at}].harbor", f"a task of Harbor{own}")
        if task.harbor is None and program == HARBOR:
            message = 'not a task of Harbor; with program = "harbor", write harbor = "FOLDER"'
            yield Mistake(file, f"tasks[{at}]", message)
    if suite.agent is None or program != HARBOR:
        return
    if suite.workspace is not None:
        yield Mistake(path, "workspace", "tasks of Harbor bring their own; leave it out")
    if suite.acceptance_files:
        message = "tasks of Harbor bring their own; leave it out"
        yield Mistake(path, "acceptance_files", message)
    words = {"agent": suite.agent.args}
    for name, arm in suite.arms.items():
        words[f"arms.{name}"] = arm.args
        for key in _OF_ARM:
            if getattr(arm, key):
                message = "no effect: the workspace is Harbor's; let the arms differ by args"
                yield Mistake(path, f"arms.{name}.{key}", message)
    for key, args in words.items():
        for word in args:
            if word.partition("=")[0] in _OWN_OPTIONS or word.startswith(_OWN_SHORT):
                message = f"{named(word)}: twoarm gives this option for each trial; leave it out"
                yield Mistake(path, f"{key}.args", message)


def agent_seconds(path: str) -> float | None:
    """How long Harbor lets the agent of a task work; None where the task does not say."""
    try:
        table = _config_of(path).get("agent")
    except _UnfitError:
        return None
    seconds = table.get("timeout_sec") if isinstance(table, dict) else None
    return float(seconds) if isinstance(seconds, int | float) else None
