"""From a trial to its order: suite, arm and agent put together."""

import os
from collections.abc import Iterator, Mapping, Sequence
from secrets import token_hex

import msgspec

from twoarm.errors import InputError
from twoarm.programs.agent import Agent, Meter, Start
from twoarm.programs.prices import Prices
from twoarm.run.order import Order, Scratch
from twoarm.run.place import Place
from twoarm.run.prepare import Ground
from twoarm.run.schedule import Trial
from twoarm.run.suite import Task, fill, fill_shell, placeholders
from twoarm.run.suite_file import Plan
from twoarm.run.supervisor.program import why_unfit
from twoarm.text.escape import named, visible

# What Linux allows a single word of a command line.
LONGEST_ARGUMENT = 128 * 1024 - 1
# Paths of no attempt, for arguments that are only looked at.
_NOWHERE = Scratch("")


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What all attempts of a run have in common besides the suite."""

    place: Place
    ground: Ground
    # PATH, LANG and TERM; HOME and TMPDIR are each attempt's own.
    env: dict[str, str]
    secrets: dict[str, str]
    marker: str
    bwrap: bool
    keep_workspace: str
    prices: Mapping[str, Prices] | None
    trial_usd: float | None


class Orders:
    """Makes the order of any trial."""

    def __init__(self, plan: Plan, agent: Agent, around: Surroundings) -> None:
        self._plan = plan
        self._agent = agent
        self._around = around
        self._tasks = {task.id: task for task in plan.tasks}

    def make(self, trial: Trial, folder: str) -> tuple[Order, Meter | None]:
        """The order of an attempt that keeps its files in a folder, and what tells its cost."""
        plan, around = self._plan, self._around
        arm, task = plan.arms[trial.arm], self._tasks[trial.task]
        tree = around.ground.trees[trial.arm][trial.task]
        scratch = Scratch(around.place.fresh())
        values = values_of(plan, trial.arm, task, scratch, around.ground.builds.get(trial.arm, ""))
        start = start_of(plan, trial.arm, values, scratch, around.trial_usd)
        launch = self._agent.launch(start)
        base = self._base(trial.arm)
        own = {**plan.agent.env, **arm.env}
        filled = {name: fill(text, values) for name, text in own.items()}
        limits = plan.suite.limits
        order = Order(
            scratch=scratch.path,
            folder=folder,
            tree=tree.path,
            manifest=tree.manifest,
            marker=f"{around.marker}-{token_hex(4)}",
            prompt=start.prompt,
            bwrap=around.bwrap,
            path=around.env["PATH"],
            env={
                "setup": {**base, **plan.workspace.env},
                "agent": {**base, **launch.env, **plan.workspace.env, **filled, **around.secrets},
                "acceptance": {**around.env, **plan.workspace.env},
            },
            secrets=around.secrets,
            setup=tuple(fill_shell(command, values) for command in arm.setup_commands),
            setup_seconds=limits.setup_seconds,
            home_texts=launch.home,
            # What a link leads to, so that the agent has a copy of its own.
            home_files={
                path: os.path.realpath(plan.at(source))
                for path, source in {**plan.agent.home, **arm.home}.items()
            },
            argv=launch.argv,
            output=launch.output,
            output_bytes=limits.output_mb * 2**20,
            patch_bytes=limits.patch_mb * 2**20,
            timeout_seconds=task.timeout_seconds or limits.timeout_seconds,
            grace_seconds=limits.grace_seconds,
            after=launch.after,
            keep=launch.keep,
            restore=(*plan.suite.acceptance_files, *task.acceptance_files),
            acceptance_command=task.acceptance_command,
            acceptance_seconds=limits.acceptance_seconds,
            keep_workspace=around.keep_workspace,
            result=None,
        )
        return order, self._agent.meter(start, around.prices)

    def model(self, arm: str) -> str | None:
        """The model of an arm."""
        return model_of(self._plan, arm)

    def _base(self, arm: str) -> dict[str, str]:
        """The variables of an arm; what it built comes first on its PATH."""
        env = self._around.env
        build = self._around.ground.builds.get(arm)
        if build is None:
            return env
        path = os.pathsep.join((os.path.join(build, "bin"), build, env["PATH"]))
        return {**env, "PATH": path}


def model_of(plan: Plan, arm: str) -> str | None:
    """The model of an arm."""
    return plan.arms[arm].model or plan.agent.model


def values_of(plan: Plan, arm: str, task: Task, scratch: Scratch, build: str) -> dict[str, str]:
    """What placeholders stand for."""
    values = {
        "prompt": plan.prompts[task.id],
        "prompt_file": scratch.prompt,
        "model": model_of(plan, arm) or "",
        "task_id": task.id,
        "acceptance_command": task.acceptance_command,
        "suite": plan.folder,
        "workspace": scratch.workspace,
        "build": build,
        "usage": scratch.usage,
    }
    template = plan.arms[arm].prompt_template
    if template is not None:
        values["prompt"] = fill(template, values)
    return values


def start_of(
    plan: Plan, arm: str, values: dict[str, str], scratch: Scratch, trial_usd: float | None
) -> Start:
    """What an attempt in an arm starts with."""
    args = (*plan.agent.args, *plan.arms[arm].args)
    argv = [fill(text, values) for text in plan.agent.argv]
    if argv and os.sep in argv[0]:
        argv[0] = plan.at(argv[0])
    return Start(
        prompt=values["prompt"],
        prompt_file=values["prompt_file"],
        model=model_of(plan, arm),
        args=tuple(fill(text, values) for text in args),
        argv=tuple(argv),
        workspace=values["workspace"],
        home=scratch.home,
        output=scratch.output,
        usage=values["usage"],
        trial_usd=trial_usd,
    )


def check_arguments(plan: Plan, agent: Agent, tasks: Sequence[Task]) -> None:
    """Refuse a prompt that is too long for a command line, before anything runs."""
    for task in tasks:
        for arm in plan.arms:
            values = values_of(plan, arm, task, _NOWHERE, "")
            argv = agent.launch(start_of(plan, arm, values, _NOWHERE, None)).argv
            longest = max(len(os.fsencode(word)) for word in argv)
            if longest > LONGEST_ARGUMENT:
                raise InputError(
                    f"{visible(plan.path)}: task {named(task.id)} in arm {named(arm)}: an argument "
                    f"of {longest:,} bytes, and a program takes {LONGEST_ARGUMENT:,} at most; put "
                    "the long part into a file of the workspace"
                )


def check_programs(plan: Plan, agent: Agent, tasks: Sequence[Task], ground: Ground) -> None:
    """Refuse a program that is not in its workspace or build, now that these are made."""
    made = set(placeholders(agent.executable)) - {"suite"}
    for arm, settings in plan.arms.items():
        # The setup of an arm runs before each trial, and may make anything.
        if not made or ("workspace" in made and settings.setup_commands):
            continue
        for task in tasks:
            values = values_of(plan, arm, task, _NOWHERE, ground.builds.get(arm, ""))
            values["workspace"] = ground.trees[arm][task.id].path
            program = agent.launch(start_of(plan, arm, values, _NOWHERE, None)).argv[0]
            if os.sep in program and (unfit := why_unfit(program)):
                raise InputError(
                    f"agent {named(agent.name)}, arm {named(arm)}, task {named(task.id)}: "
                    f"{visible(agent.executable)}: {visible(unfit)}"
                )


def missing_files(plan: Plan) -> Iterator[str]:
    """Arguments that name a file beside the suite that is not there."""
    words = {"agent.argv": plan.agent.argv[1:], "agent.args": plan.agent.args}
    words |= {f"arms.{name}.args": arm.args for name, arm in plan.arms.items()}
    for key, texts in words.items():
        for text in texts:
            fixed = text.startswith("{suite}/") and placeholders(text) == ["suite"]
            if fixed and not os.path.exists(fill(text, {"suite": plan.folder})):
                yield f"{key} names {visible(text)}, and there is no such file"
