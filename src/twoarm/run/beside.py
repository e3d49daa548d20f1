"""What an agent or an arm names beside the suite: the change may be in it, so it is frozen too."""

import os
from collections.abc import Iterator, Sequence
from itertools import product

from twoarm.run.schedule import Frozen
from twoarm.run.shown import lies, named_in
from twoarm.run.suite import PLACEHOLDERS, SuiteTask, fill, fill_shell, placeholders
from twoarm.run.suite_file import CheckedSuite
from twoarm.run.tree import tree_digest

_SUITE = "{suite}"
# In a shell line `${name}` is the shell's own.
_SHELL = (".setup_commands", ".build_commands")


def beside_digests(checked: CheckedSuite, tasks: Sequence[SuiteTask]) -> Iterator[tuple[str, str]]:
    """By key and path, every file and folder that an agent or an arm names as `{suite}/PATH`."""
    for key, path in _named(checked, tasks):
        if not lies(checked.folder, path):
            name = os.path.relpath(path, checked.folder)
            yield f"{key}.{name}", tree_digest(path, without_runs=True)


def agent_digests(frozen: Frozen) -> dict[str, str]:
    """Those of a schedule that are of no use where no agent runs."""
    keys = ["agent.argv", "agent.args", "agent.env"]
    for arm in frozen.suite.arms:
        keys += [f"arms.{arm}.{key}" for key in ("args", "env", "prompt_template")]
    own = tuple(f"{key}." for key in keys)
    return {key: digest for key, digest in frozen.digests.items() if key.startswith(own)}


def names_all(checked: CheckedSuite) -> Iterator[str]:
    """The keys that name the folder of the suite as a whole: work may go on in it, and runs lie
    in it, so it is not frozen."""
    named = (key for key, path in _named(checked, checked.tasks) if lies(checked.folder, path))
    yield from dict.fromkeys(named)
    for task in checked.tasks:
        if checked.graded_by_all(task):
            yield f"acceptance of task {task.id}"


def _named(checked: CheckedSuite, tasks: Sequence[SuiteTask]) -> Iterator[tuple[str, str]]:
    """What is there of all that is named, by the key that names it."""
    for key, texts, models in _texts(checked):
        filled = (
            line
            for text in texts
            if _SUITE in text
            for line in _filled(key, text, checked.folder, tasks, models)
        )
        for path in sorted(set(map(os.path.normpath, named_in(filled, checked.folder)))):
            yield key, path


def _texts(
    checked: CheckedSuite,
) -> Iterator[tuple[str, tuple[str, ...], tuple[str | None, ...]]]:
    """The keys that `{suite}` may be in, their texts, and the models that these are filled for."""
    agent = checked.agent
    models = tuple(dict.fromkeys(arm.model or agent.model for arm in checked.arms.values()))
    program = agent.argv[:1]
    relative = program and not os.path.isabs(os.path.expanduser(program[0]))
    if relative and os.sep in program[0] and not program[0].startswith("{"):
        program = (program[0], os.path.join(_SUITE, program[0]))
    yield "agent.argv", (*program, *agent.argv[1:]), models
    yield "agent.args", agent.args, models
    yield "agent.env", tuple(agent.env.values()), models
    for name, arm in sorted(checked.arms.items()):
        texts = {
            "args": arm.args,
            "env": tuple(arm.env.values()),
            "prompt_template": (arm.prompt_template or "",),
            "setup_commands": arm.setup_commands,
            "build_commands": arm.build_commands,
        }
        for key, each in texts.items():
            yield f"arms.{name}.{key}", each, (arm.model or agent.model,)


def _filled(
    key: str,
    text: str,
    folder: str,
    tasks: Sequence[SuiteTask],
    models: Sequence[str | None],
) -> Iterator[str]:
    """A text as trials have it, as far as that is known before they start."""
    # What is known only then stays in its braces, and ends a path.
    values = {name: f"{{{name}}}" for name in PLACEHOLDERS} | {"suite": folder}
    if key.endswith(_SHELL):
        yield fill_shell(text, values)
        return
    known = placeholders(text)
    ids = [task.id for task in tasks] if "task_id" in known else [""]
    for task, model in product(ids, models if "model" in known else [""]):
        yield fill(text, values | {"task_id": task, "model": model or ""})
