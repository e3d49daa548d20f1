"""What has to stand before the first trial: builds, trees, and an acceptance that can be run."""

import os
from collections.abc import Iterable, Mapping, Sequence
from secrets import token_hex

import msgspec

from twoarm.errors import InputError
from twoarm.escape import named, visible
from twoarm.run.executor import Executor
from twoarm.run.ledger import read_outcome
from twoarm.run.order import Order
from twoarm.run.place import Place
from twoarm.run.remove import remove
from twoarm.run.schedule import Frozen
from twoarm.run.suite import Task, fill_shell
from twoarm.run.suite_file import Plan
from twoarm.run.tree import commit_all, copy, digest_of, export, overlay, without_history

# What a shell says of a command that it cannot start.
NOT_RUNNABLE = (126, 127)
# Kept of what a set-up prints.
_LOG_BYTES = 16 * 2**20


class Tree(msgspec.Struct, frozen=True, kw_only=True):
    """A workspace to copy, and its one commit."""

    path: str
    base: str


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """What trials start from."""

    # By arm, then by task.
    trees: dict[str, dict[str, Tree]]
    builds: dict[str, str]
    # Of the trees without the arms' changes, by task, and of the builds, by arm.
    digests: dict[str, str]
    # Exit codes of acceptance on the untouched workspace, by task.
    untouched: dict[str, tuple[int, ...]]

    def paths(self) -> set[str]:
        """The folders that have to be there."""
        trees = {tree.path for by_task in self.trees.values() for tree in by_task.values()}
        return trees | set(self.builds.values())


class _Facts(msgspec.Struct, frozen=True, kw_only=True):
    setup_exit_code: int
    acceptance_exit_code: int | None = None


class Workshop(msgspec.Struct, frozen=True, kw_only=True):
    """Where the steps before the first trial are taken, and with what."""

    place: Place
    executor: Executor
    # A folder for what they print.
    logs: str
    # In the environment of every process.
    marker: str
    env: dict[str, str]
    secrets: dict[str, str]


class Preparation:
    """The steps before the first trial, each under a supervisor as any trial."""

    def __init__(self, plan: Plan, frozen: Frozen, workshop: Workshop) -> None:
        self._plan = plan
        self._frozen = frozen
        self._workshop = workshop
        self._place = workshop.place
        self._made = 0

    def ground(self, checks: int) -> Ground:
        """Everything built and set up; acceptance tried so many times on each task."""
        tasks = self._frozen.suite.tasks
        builds = {arm: self._built(arm) for arm in self._plan.arms}
        seeds = self._seeds(tasks)
        trees = self._trees(seeds)
        digests = {f"trees.{task}": digest_of(path) for task, path in seeds.items()}
        digests |= {f"builds.{arm}": digest_of(path) for arm, path in builds.items() if path}
        baseline = trees[self._plan.baseline]
        return Ground(
            trees=trees,
            builds={arm: path for arm, path in builds.items() if path},
            digests=digests,
            untouched=self._untouched(tasks, baseline, checks),
        )

    def _built(self, name: str) -> str:
        arm = self._plan.arms[name]
        if arm.source is None:
            return ""
        self._made += 1
        source = os.path.join(self._place.builds, f"source{self._made}")
        build = os.path.join(self._place.builds, str(self._made))
        remove(source)
        remove(build)
        export(self._plan.at(arm.source.repo), self._frozen.sources[name], source)
        os.makedirs(os.path.join(build, "bin"))
        commands = [self._filled(command, build) for command in arm.build_commands]
        self._run(f"build of arm {named(name)}", f"build.{name}", source, commands, None)
        return build

    def _filled(self, command: str, build: str = "") -> str:
        values = {"suite": self._plan.folder, "workspace": ".", "build": build}
        return fill_shell(command, values)

    def _seeds(self, tasks: Sequence[Task]) -> dict[str, str]:
        """The workspace of each task; tasks with the same set-up share one."""
        workspace = self._plan.workspace
        start = os.path.join(self._place.trees, "start")
        remove(start)
        if workspace.repo is not None:
            export(self._plan.at(workspace.repo), self._frozen.origin, start)
        else:
            copy(self._plan.at(workspace.copy or ""), start)
            without_history(start)
        common = start
        if workspace.setup_commands:
            common = os.path.join(self._place.trees, "common")
            commands = list(map(self._filled, workspace.setup_commands))
            self._run("setup of the workspace", "workspace", start, commands, common)
        seeds: dict[tuple[str, ...], str] = {(): common}
        for task in tasks:
            if task.setup_commands not in seeds:
                path = os.path.join(self._place.trees, f"task{len(seeds)}")
                commands = list(map(self._filled, task.setup_commands))
                self._run(
                    f"setup of task {named(task.id)}", f"task.{task.id}", common, commands, path
                )
                seeds[task.setup_commands] = path
        return {task.id: seeds[task.setup_commands] for task in tasks}

    def _trees(self, seeds: Mapping[str, str]) -> dict[str, dict[str, Tree]]:
        """The seeds with what each arm changes in them, as repositories."""
        made: dict[tuple[str, str], Tree] = {}
        for name, arm in self._plan.arms.items():
            for seed in dict.fromkeys(seeds.values()):
                path = os.path.join(self._place.trees, f"tree{len(made)}")
                remove(path)
                copy(seed, path)
                files = {place: self._plan.at(source) for place, source in arm.files.items()}
                overlay(path, arm.remove, files)
                made[name, seed] = Tree(path=path, base=commit_all(path))
        return {
            name: {task: made[name, seed] for task, seed in seeds.items()}
            for name in self._plan.arms
        }

    def _untouched(
        self, tasks: Sequence[Task], trees: Mapping[str, Tree], checks: int
    ) -> dict[str, tuple[int, ...]]:
        """Acceptance where nothing was done; one that cannot be run stops everything."""
        waiting = [(task, check) for task in tasks for check in range(checks)]
        orders = []
        for task, check in waiting:
            folder = self._folder(f"acceptance.{task.id}.{check + 1}")
            order = self._order(folder, trees[task.id].path, (), None)
            orders.append(
                msgspec.structs.replace(order, acceptance_command=task.acceptance_command)
            )
        facts = self._all(orders)
        codes: dict[str, list[int]] = {task.id: [] for task in tasks}
        for (task, _), order, fact in zip(waiting, orders, facts, strict=True):
            code = fact.acceptance_exit_code or 0
            if code in NOT_RUNNABLE:
                raise InputError(
                    f"task {named(task.id)}: its acceptance command cannot be run "
                    f"(exit code {code}); see {visible(order.folder)}/acceptance.log"
                )
            codes[task.id].append(code)
        return {task: tuple(found) for task, found in codes.items()}

    def _run(
        self, what: str, name: str, tree: str, commands: Sequence[str], result: str | None
    ) -> None:
        """Commands in a copy of a tree, which becomes the result."""
        if result is not None:
            remove(result)
        order = self._order(self._folder(name), tree, commands, result)
        (facts,) = self._all([order])
        if facts.setup_exit_code:
            raise InputError(
                f"{what} failed with exit code {facts.setup_exit_code}; "
                f"see {visible(order.folder)}/setup.log"
            )

    def _folder(self, name: str) -> str:
        path = os.path.join(self._workshop.logs, name)
        remove(path)
        os.makedirs(path)
        return path

    def _order(self, folder: str, tree: str, commands: Sequence[str], result: str | None) -> Order:
        limits = self._plan.suite.limits
        return Order(
            scratch=self._place.fresh(),
            folder=folder,
            tree=tree,
            base="",
            marker=f"{self._workshop.marker}-{token_hex(4)}",
            prompt="",
            sandbox=(),
            env=dict.fromkeys(("setup", "agent", "acceptance"), self._workshop.env),
            secrets=self._workshop.secrets,
            setup=tuple(commands),
            setup_seconds=limits.setup_seconds,
            home_texts={},
            home_files={},
            argv=(),
            output="",
            output_bytes=_LOG_BYTES,
            usage="",
            timeout_seconds=0.0,
            grace_seconds=limits.grace_seconds,
            after=(),
            keep={},
            restore=(),
            acceptance_command="",
            acceptance_seconds=limits.acceptance_seconds,
            keep_workspace="none",
            result=result,
        )

    def _all(self, orders: Sequence[Order]) -> list[_Facts]:
        """Run the orders, as many at a time as there are slots."""
        waiting = list(enumerate(orders))[::-1]
        running = 0
        while waiting or running:
            while waiting and running < self._workshop.executor.slots:
                number, order = waiting.pop()
                self._workshop.executor.submit(str(number), order, None, None)
                running += 1
            for outcome in self._workshop.executor.completed(3600.0):
                running -= 1
                if not outcome.complete:
                    raise InputError(f"setup did not finish: {visible(outcome.reason)}")
        return [_facts(order.folder) for order in orders]


def _facts(folder: str) -> _Facts:
    return msgspec.convert(read_outcome(folder), _Facts)


def warnings_of(untouched: Mapping[str, Iterable[int]]) -> list[str]:
    """What acceptance on the untouched workspace tells about each task."""
    said = []
    for task, codes in untouched.items():
        passed = {code == 0 for code in codes}
        if passed == {True}:
            said.append(f"task {named(task)}: acceptance passes on the untouched workspace")
        elif len(passed) > 1:
            said.append(f"task {named(task)}: acceptance is flaky on the untouched workspace")
    return said
