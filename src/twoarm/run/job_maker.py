"""From a trial to its job: suite, arm and agent put together."""

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from secrets import token_hex

import msgspec

from twoarm.errors import InputError
from twoarm.programs.agent import Agent, Launch, Meter, Start
from twoarm.programs.prices import Prices
from twoarm.run.jobs import Job, Scratch
from twoarm.run.place import Place
from twoarm.run.prepare import Prepared
from twoarm.run.schedule import Trial
from twoarm.run.sealing import Sealer
from twoarm.run.suite import SuiteTask, fill, fill_shell, placeholders
from twoarm.run.suite_file import CheckedSuite
from twoarm.run.supervisor.program import why_unfit
from twoarm.text.escape import named, visible

# What Linux allows a single word of a command line.
LONGEST_ARGUMENT = 128 * 1024 - 1
# Paths of no attempt, for arguments that are only looked at.
_NOWHERE = Scratch("")
# In a word of a shell command: what it stands for is not known before it runs.
_PATTERN = re.compile(r"[*?$`{\[]")


class TrialContext(msgspec.Struct, frozen=True, kw_only=True):
    """What all attempts of a run have in common besides the suite."""

    place: Place
    prepared: Prepared
    # PATH, LANG and TERM; HOME and TMPDIR are each attempt's own.
    env: dict[str, str]
    secrets: dict[str, str]
    marker: str
    sealer: Sealer
    keep_workspace: str
    prices: Mapping[str, Prices] | None
    trial_usd: float | None


class JobMaker:
    """Makes the job of any trial."""

    def __init__(self, checked: CheckedSuite, agent: Agent, context: TrialContext) -> None:
        self._checked = checked
        self._agent = agent
        self._context = context
        self._tasks = {task.id: task for task in checked.tasks}

    def make(self, trial: Trial, folder: str) -> tuple[Job, Meter | None]:
        """The job of an attempt that keeps its files in a folder, and what tells its cost."""
        checked, context = self._checked, self._context
        arm, task = checked.arms[trial.arm], self._tasks[trial.task]
        tree = context.prepared.trees[trial.arm][trial.task]
        scratch = Scratch(context.place.fresh())
        build = context.prepared.builds.get(trial.arm, "")
        values = values_of(checked, trial.arm, task, scratch, build)
        marker = f"{context.marker}-{token_hex(4)}"
        start, launch, variables = self._launched(trial.arm, task, values, scratch, marker)
        # A task may mention any file; what an agent may read is named by those who start it.
        unasked = values_of(checked, trial.arm, task, scratch, build, asked=False)
        _, bare, bare_variables = self._launched(trial.arm, task, unasked, scratch, marker)
        texts = (*bare.argv, *bare_variables.values())
        plain = {} if context.sealer.contained else context.env
        limits = checked.suite.limits
        job = Job(
            scratch=scratch.path,
            folder=folder,
            tree=tree.path,
            manifest=tree.manifest,
            marker=marker,
            prompt=start.prompt,
            task=task.id,
            arm=trial.arm,
            build=build,
            seal=context.sealer.for_agent(task.id, build, texts, trial.arm),
            texts=texts,
            processes=limits.processes or 0,
            path=context.env["PATH"],
            env={
                "setup": {**self._base(trial.arm), **checked.workspace.env},
                "agent": self._base(trial.arm) | variables | context.secrets,
                "acceptance": {**plain, **checked.workspace.env},
            },
            secrets=context.secrets,
            setup=tuple(fill_shell(command, values) for command in arm.setup_commands),
            setup_seconds=limits.setup_seconds,
            home_texts=launch.home,
            # What a link leads to, so that the agent has a copy of its own.
            home_files={
                path: os.path.realpath(checked.at(source))
                for path, source in {**checked.agent.home, **arm.home}.items()
            },
            argv=launch.argv,
            output=launch.output,
            output_bytes=limits.output_mb * 2**20,
            patch_bytes=limits.patch_mb * 2**20,
            timeout_seconds=task.timeout_seconds or limits.timeout_seconds,
            stop_signal=launch.stop_signal,
            grace_seconds=max(limits.grace_seconds, launch.least_grace_seconds),
            engines=launch.engines,
            after=launch.after,
            keep=launch.keep,
            restore=(*checked.suite.acceptance_files, *task.acceptance_files),
            acceptance=checked.acceptance(task),
            acceptance_seconds=limits.acceptance_seconds,
            keep_workspace=context.keep_workspace,
        )
        return job, self._agent.meter(start, context.prices)

    def _launched(
        self, arm: str, task: SuiteTask, values: dict[str, str], scratch: Scratch, marker: str
    ) -> tuple[Start, Launch, dict[str, str]]:
        """How an agent is started, with its own variables; there are no secrets among them."""
        checked = self._checked
        start = start_of(checked, arm, task, values, scratch, self._context.trial_usd, marker)
        launch = self._agent.launch(start)
        own = {**checked.agent.env, **checked.arms[arm].env}
        filled = {name: fill(text, values) for name, text in own.items()}
        return start, launch, launch.env | checked.workspace.env | filled

    def _base(self, arm: str) -> dict[str, str]:
        """The variables of an arm; what it built comes first on its PATH.

        An image has its own.
        """
        if self._context.sealer.contained:
            return {}
        env = self._context.env
        build = self._context.prepared.builds.get(arm)
        if build is None:
            return env
        path = os.pathsep.join((os.path.join(build, "bin"), build, env["PATH"]))
        return {**env, "PATH": path}


def model_of(checked: CheckedSuite, arm: str) -> str | None:
    """The model of an arm."""
    return checked.arms[arm].model or checked.agent.model


def values_of(
    checked: CheckedSuite,
    arm: str,
    task: SuiteTask,
    scratch: Scratch,
    build: str,
    *,
    asked: bool = True,
) -> dict[str, str]:
    """What placeholders stand for; if the task is not `asked`, without its words."""
    values = {
        "prompt": checked.prompts[task.id] if asked else "",
        "prompt_file": scratch.prompt,
        "model": model_of(checked, arm) or "",
        "task_id": task.id,
        "acceptance_command": task.whole_acceptance if asked else "",
        "suite": checked.shown,
        "workspace": scratch.workspace,
        "build": build,
        "usage": scratch.usage,
    }
    template = checked.arms[arm].prompt_template
    if template is not None:
        values["prompt"] = fill(template, values)
    return values


def start_of(
    checked: CheckedSuite,
    arm: str,
    task: SuiteTask,
    values: dict[str, str],
    scratch: Scratch,
    trial_usd: float | None = None,
    marker: str = "",
) -> Start:
    """What an attempt in an arm starts with."""
    args = (*checked.agent.args, *checked.arms[arm].args)
    argv = [fill(text, values) for text in checked.agent.argv]
    if argv and os.sep in argv[0]:
        argv[0] = checked.shown_at(argv[0])
    return Start(
        prompt=values["prompt"],
        prompt_file=values["prompt_file"],
        model=model_of(checked, arm),
        args=tuple(fill(text, values) for text in args),
        argv=tuple(argv),
        workspace=values["workspace"],
        home=scratch.home,
        output=scratch.output,
        usage=values["usage"],
        trial_usd=trial_usd,
        trial=marker,
        task_folder=os.path.join(values["workspace"], _task_name(checked, task)),
    )


def _task_name(checked: CheckedSuite, task: SuiteTask) -> str:
    """What a task of Harbor is called in its workspace."""
    return os.path.basename(checked.at(task.harbor)) if task.harbor is not None else ""


def clear_engines(
    checked: CheckedSuite,
    agent: Agent,
    env: Mapping[str, str],
    task: SuiteTask,
    token: str,
) -> None:
    """Remove what engines of containers still have of a run whose runner was killed."""
    from twoarm.run.supervisor.leftovers import remove_named

    for arm, settings in checked.arms.items():
        values = values_of(checked, arm, task, _NOWHERE, "")
        launch = agent.launch(start_of(checked, arm, task, values, _NOWHERE))
        own = {**checked.agent.env, **settings.env}
        filled = {name: fill(text, values) for name, text in own.items()}
        home = {"HOME": os.path.expanduser("~")}
        remove_named(launch.engines, token, {**home, **env, **launch.env, **filled})


def check_arguments(checked: CheckedSuite, agent: Agent, tasks: Sequence[SuiteTask]) -> None:
    """Refuse a prompt that is too long for a command line, before anything runs."""
    for task in tasks:
        for arm in checked.arms:
            argv = argv_of(checked, agent, arm, task)
            longest = max(len(os.fsencode(word)) for word in argv)
            if longest > LONGEST_ARGUMENT:
                raise InputError(
                    f"{visible(checked.path)}: task {named(task.id)} in arm {named(arm)}: an "
                    f"argument of {longest:,} bytes, and a program takes {LONGEST_ARGUMENT:,} at "
                    "most; put the long part into a file of the workspace"
                )


def argv_of(checked: CheckedSuite, agent: Agent, arm: str, task: SuiteTask) -> tuple[str, ...]:
    """The command of a trial, before anything is made for it."""
    values = values_of(checked, arm, task, _NOWHERE, "")
    return agent.launch(start_of(checked, arm, task, values, _NOWHERE)).argv


def check_programs(
    checked: CheckedSuite, agent: Agent, tasks: Sequence[SuiteTask], prepared: Prepared
) -> None:
    """Refuse a program that is not in its workspace or build, now that these are made."""
    made = set(placeholders(agent.executable)) - {"suite"}
    for arm, settings in checked.arms.items():
        # The setup of an arm runs before each trial, and may make anything.
        if not made or ("workspace" in made and settings.setup_commands):
            continue
        for task in tasks:
            values = values_of(checked, arm, task, _NOWHERE, prepared.builds.get(arm, ""))
            values["workspace"] = prepared.trees[arm][task.id].path
            program = agent.launch(start_of(checked, arm, task, values, _NOWHERE)).argv[0]
            if os.sep in program and (unfit := why_unfit(program)):
                raise InputError(
                    f"agent {named(agent.name)}, arm {named(arm)}, task {named(task.id)}: "
                    f"{visible(agent.executable)}: {visible(unfit)}"
                )


def missing_files(checked: CheckedSuite) -> Iterator[str]:
    """Arguments and acceptance commands that name a file beside the suite that is not there."""
    words = {"agent.argv": checked.agent.argv[1:], "agent.args": checked.agent.args}
    words |= {f"arms.{name}.args": arm.args for name, arm in checked.arms.items()}
    for key, texts in words.items():
        for text in texts:
            fixed = text.startswith("{suite}/") and placeholders(text) == ["suite"]
            # A copy that commands are shown may be gone by now.
            if fixed and not os.path.exists(fill(text, {"suite": checked.folder})):
                yield f"{key} names {visible(text)}, and there is no such file"
    commands = [text for task in checked.tasks for text in checked.acceptance(task).values()]
    for path in dict.fromkeys(path for text in commands for path in _beside(text, checked)):
        if not os.path.exists(os.path.join(checked.folder, path)):
            yield f"acceptance names {{suite}}/{visible(path)}, and there is no such file"


def _beside(command: str, checked: CheckedSuite) -> Iterator[str]:
    """The words of a command that are paths beside the suite, and no patterns."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    with suppress(ValueError):
        for word in lexer:
            path = word.removeprefix(checked.shown + "/")
            if path != word and not _PATTERN.search(path):
                yield path
