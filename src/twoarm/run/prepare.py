"""What must be ready before the first trial: builds, trees, and acceptance that can be run."""

import marshal
import os
from collections.abc import Iterator, Mapping, Sequence
from secrets import token_hex

import msgspec

from twoarm.errors import InputError
from twoarm.files.safe import OpenFolder
from twoarm.run.executor import Executor
from twoarm.run.grader import grader_of
from twoarm.run.jobs import Job, Seal
from twoarm.run.place import Place
from twoarm.run.schedule import Frozen, task_keys
from twoarm.run.sealing import KINDS, Sealer
from twoarm.run.suite import Arm, SuiteTask
from twoarm.run.suite_file import CheckedSuite
from twoarm.run.supervisor.manifest import Manifest, changes, manifest_of, written
from twoarm.run.supervisor.program import NOT_EXECUTABLE, NOT_FOUND
from twoarm.run.tree import check_paths, commit_all, copy, export, overlay, tree_digest
from twoarm.run.untouched import Untouched, difference, read_untouched
from twoarm.text.escape import named, visible

# How much is kept of what a set-up prints.
_LOG_BYTES = 16 * 2**20


class Tree(msgspec.Struct, frozen=True, kw_only=True):
    """A workspace to copy, and a file that says what is in it."""

    path: str
    manifest: str

    def changed(self) -> list[str]:
        """What is not as it was made; all of it, if that cannot be told."""
        try:
            with open(self.manifest, "rb") as file:
                before: Manifest = marshal.load(file)
            with OpenFolder(self.path) as folder:
                return changes(folder, before, history=True)
        except (OSError, ValueError, EOFError, TypeError):
            return ["."]


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """What trials start from."""

    # By arm, then by task.
    trees: dict[str, dict[str, Tree]]
    builds: dict[str, str]
    # Of the trees without the arms' changes, by task, and of the builds, by arm.
    digests: dict[str, str]
    # Of what grades the runs, by task.
    graders: dict[str, str]
    # What acceptance found in the untouched workspace each time, by task.
    untouched: dict[str, tuple[Untouched, ...]]
    # What trials run in, and why it is not a better one.
    isolation: str
    isolation_reason: str
    # What is odd about acceptance, and what to do about it.
    warnings: tuple[str, ...] = ()

    def paths(self) -> set[str]:
        """The folders that have to be there."""
        return {tree.path for tree in self._different()} | set(self.builds.values())

    def _different(self) -> set[Tree]:
        return {tree for by_task in self.trees.values() for tree in by_task.values()}

    def different(self) -> list[Tree]:
        """Every tree once."""
        return sorted(self._different(), key=lambda tree: tree.path)

    def changed(self) -> Iterator[str]:
        """The files of trees that are not as they were made: a trial has changed them."""
        for tree in self.different():
            for path in tree.changed():
                yield written(os.path.normpath(os.path.join(tree.path, path)))


class SetupContext(msgspec.Struct, frozen=True, kw_only=True):
    """Where the steps before the first trial are taken, and with what."""

    place: Place
    executor: Executor
    # A folder for what they print.
    logs: OpenFolder
    # In the environment of every process.
    marker: str
    env: dict[str, str]
    secrets: dict[str, str]
    sealer: Sealer
    # A sandbox to take if acceptance does the same in it; or the open, to compare with the sandbox
    # that was asked for.
    other: Sealer | None


class Preparation:
    """The steps before the first trial, each under a supervisor as any trial."""

    def __init__(self, checked: CheckedSuite, frozen: Frozen, context: SetupContext) -> None:
        self._checked = checked
        self._frozen = frozen
        self._context = context
        self._place = context.place
        self._made = 0

    def prepare(self, checks: int) -> Prepared:
        """Everything built and set up; acceptance tried this many times on each task."""
        tasks = self._frozen.suite.tasks
        builds = {arm: self._built(arm) for arm in self._checked.arms}
        if self._checked.of_harbor:
            folders = {task.id: self._task_folder(task, at) for at, task in enumerate(tasks)}
            seeds = {task: tree.path for task, tree in folders.items()}
            trees = dict.fromkeys(self._checked.arms, folders)
        else:
            seeds = self._seeds(tasks)
            trees = self._trees(seeds)
        digests = {f"trees.{task}": tree_digest(path) for task, path in seeds.items()}
        digests |= {f"builds.{arm}": tree_digest(path) for arm, path in builds.items() if path}
        baseline = trees[self._checked.baseline]
        untouched = self._untouched(tasks, baseline, checks)
        sealer, reason, warnings = self._context.sealer, "", [*self._absent(trees)]
        if (other := self._context.other) is not None:
            why = self._differs(tasks, baseline, other)
            if why and other.isolation == "copy":
                warnings.append(
                    f"{why}; name files of the suite as {{suite}}/PATH in the command, and put "
                    "whatever else it needs into agent.mounts"
                )
            elif why:
                reason = f"{other.isolation}: {why}"
            elif other.isolation != "copy":
                sealer = other
        return Prepared(
            trees=trees,
            builds={arm: path for arm, path in builds.items() if path},
            digests=digests,
            graders={task.id: self._grader(task, trees) for task in tasks},
            untouched=untouched,
            isolation=sealer.isolation,
            isolation_reason=reason,
            warnings=tuple(warnings),
        )

    def _grader(self, task: SuiteTask, trees: Mapping[str, Mapping[str, Tree]]) -> str:
        if task.harbor is not None:
            return self._frozen.digests[task_keys(task.id)[3]]
        paths = {by_task[task.id].path for by_task in trees.values()}
        image = self._context.sealer.image(task.id)
        return grader_of(self._checked.suite, task, paths, self._checked.graders(task), image)

    def _built(self, name: str) -> str:
        arm = self._checked.arms[name]
        if arm.source is None:
            return ""
        self._made += 1
        builds, made = self._place.builds, f"source{self._made}"
        source, build = builds.at(made), builds.at(str(self._made))
        export(self._checked.at(arm.source.repo), self._frozen.sources[name], builds, made)
        builds.remove(str(self._made))
        builds.within(f"{self._made}/bin", make=True).close()
        commands = [self._checked.in_shell(command, build) for command in arm.build_commands]
        seal = self._context.sealer.for_setup(None, build)
        self._run(f"build of arm {named(name)}", f"build.{name}", source, commands, None, seal)
        return build

    def _task_folder(self, task: SuiteTask, number: int) -> Tree:
        """A task of Harbor in a tree of its own, under its name: Harbor calls it by that."""
        trees, made = self._place.trees, f"harbor{number}"
        source = self._checked.at(task.harbor or "")
        trees.remove(made)
        with trees.made(made) as tree:
            copy(source, tree, os.path.basename(source))
            with tree.enter(os.path.basename(source)) as copied:
                copied.remove(".git")
            trees.write(f"{made}.manifest", marshal.dumps(manifest_of(tree)))
        return Tree(path=trees.at(made), manifest=trees.at(f"{made}.manifest"))

    def _seeds(self, tasks: Sequence[SuiteTask]) -> dict[str, str]:
        """The workspace of each task; tasks with the same set-up share one."""
        workspace, trees = self._checked.workspace, self._place.trees
        start = trees.at("start")
        if workspace.repo is not None:
            export(self._checked.at(workspace.repo), self._frozen.origin, trees, "start")
        else:
            copy(self._checked.at(workspace.copy or ""), trees, "start")
            with trees.enter("start") as copied:
                # Without the repository that it was taken from.
                copied.remove(".git")
        common = start
        if workspace.setup_commands:
            common = trees.at("common")
            commands = list(map(self._checked.in_shell, workspace.setup_commands))
            seal = self._context.sealer.for_setup(None)
            self._run("setup of the workspace", "workspace", start, commands, common, seal)
        seeds: dict[tuple[str, tuple[str, ...]], str] = {}
        for task in tasks:
            if task.setup_commands and _setup_of(task) not in seeds:
                path = trees.at(f"task{len(seeds) + 1}")
                commands = list(map(self._checked.in_shell, task.setup_commands))
                what, seal = (
                    f"setup of task {named(task.id)}",
                    self._context.sealer.for_setup(task.id),
                )
                self._run(what, f"task.{task.id}", common, commands, path, seal)
                seeds[_setup_of(task)] = path
        return {task.id: seeds.get(_setup_of(task), common) for task in tasks}

    def _trees(self, seeds: Mapping[str, str]) -> dict[str, dict[str, Tree]]:
        """The seeds with what each arm changes in them, as repositories."""
        made: dict[tuple[str, str], Tree] = {}
        for name, arm in self._checked.arms.items():
            for seed in dict.fromkeys(seeds.values()):
                made[name, seed] = self._tree(f"tree{len(made)}", seed, name, arm)
        return {
            name: {task: made[name, seed] for task, seed in seeds.items()}
            for name in self._checked.arms
        }

    def _tree(self, made: str, seed: str, name: str, arm: Arm) -> Tree:
        trees = self._place.trees
        copy(seed, trees, made)
        files = {place: self._checked.at(source) for place, source in arm.files.items()}
        restored = {
            f"tasks.{t.id}.acceptance_files": t.acceptance_files for t in self._checked.tasks
        }
        restored["acceptance_files"] = self._checked.suite.acceptance_files
        with trees.enter(made) as tree:
            overlay(tree, name, arm.remove, files)
            for key, paths in restored.items():
                check_paths(tree, key, paths)
            commit_all(tree)
            trees.write(f"{made}.manifest", marshal.dumps(manifest_of(tree)))
        return Tree(path=trees.at(made), manifest=trees.at(f"{made}.manifest"))

    def _untouched(
        self, tasks: Sequence[SuiteTask], trees: Mapping[str, Tree], checks: int
    ) -> dict[str, tuple[Untouched, ...]]:
        """Acceptance where nothing was done; one that cannot be run stops everything."""
        waiting = [(task, check) for task in tasks for check in range(checks) if task.acceptance]
        jobs = [
            self._acceptance(task, f"{task.id}.{check + 1}", trees, self._context.sealer)
            for task, check in waiting
        ]
        facts = self._all(jobs)
        untouched: dict[str, tuple[Untouched, ...]] = {task.id: () for task in tasks}
        for (task, _), job, fact in zip(waiting, jobs, facts, strict=True):
            log = f"see {visible(job.folder)}/acceptance.log"
            for name, code in (fact.check_exit_codes or {"": fact.acceptance_exit_code}).items():
                if code in (NOT_EXECUTABLE, NOT_FOUND):
                    which = f" {named(name)}" if name else ""
                    place = self._checked.workspace
                    image = task.image or place.image or place.dockerfile
                    which += f" in image {named(image)}" if image and job.seal.image else ""
                    raise InputError(
                        f"task {named(task.id)}: its acceptance command{which} cannot be run "
                        f"(exit code {code}): {fact.told or 'no reason given'}; {log}"
                    )
            if fact.score_error is not None:
                raise InputError(
                    f"task {named(task.id)}: the file that $TWOARM_SCORE names: "
                    f"{visible(fact.score_error)}; {log}"
                )
            untouched[task.id] += (fact,)
        return untouched

    def _acceptance(
        self, task: SuiteTask, name: str, trees: Mapping[str, Tree], sealer: Sealer
    ) -> Job:
        folder, seal = self._folder(f"acceptance.{name}"), sealer.for_acceptance(task.id)
        acceptance = self._checked.acceptance(task)
        return self._job(folder, trees[task.id].path, acceptance=acceptance, seal=seal)

    def _absent(self, trees: Mapping[str, Mapping[str, Tree]]) -> Iterator[str]:
        """Paths to restore that no workspace has: what is there afterwards was made by an agent."""
        suite = self._checked.suite
        restored = {
            f"tasks.{t.id}.acceptance_files": t.acceptance_files for t in self._checked.tasks
        }
        restored["acceptance_files"] = suite.acceptance_files
        every = {tree.path for by_task in trees.values() for tree in by_task.values()}
        for key, paths in restored.items():
            for path in paths:
                if not any(os.path.lexists(os.path.join(tree, path)) for tree in every):
                    yield (
                        f"{visible(key)} names {named(path)}, which no workspace has: what agents "
                        "make there is removed before acceptance, and nothing is restored"
                    )

    def _differs(self, tasks: Sequence[SuiteTask], trees: Mapping[str, Tree], other: Sealer) -> str:
        """What acceptance does in a sandbox and not in the open, of which the one was tried."""
        inside = other.isolation != "copy"
        name = "inside" if inside else "outside"
        jobs = [self._acceptance(task, f"{task.id}.{name}", trees, other) for task in tasks]
        for task, job, facts in zip(tasks, jobs, self._ended(jobs), strict=True):
            folders = [self._log_of(task), job.folder]
            if unable := facts.not_started or facts.not_judged:
                why = f": {visible(unable)}"
            else:
                why = difference(*(folders if inside else folders[::-1]))
            if why:
                return f"acceptance of task {named(task.id)}{why}"
        return ""

    def _log_of(self, task: SuiteTask) -> str:
        """The folder of the first acceptance of an untouched task."""
        return self._context.logs.at(f"acceptance.{task.id}.1")

    def _run(
        self,
        what: str,
        name: str,
        tree: str,
        commands: Sequence[str],
        result: str | None,
        seal: Seal,
    ) -> None:
        """Commands in a copy of a tree, which becomes the result."""
        if result is not None:
            self._place.trees.remove(os.path.basename(result))
        job = self._job(self._folder(name), tree, commands, result=result, seal=seal)
        (facts,) = self._all([job])
        if facts.setup_exit_code:
            raise InputError(
                f"{what} failed with exit code {facts.setup_exit_code}; "
                f"see {visible(job.folder)}/setup.log"
            )

    def _folder(self, name: str) -> str:
        self._context.logs.remove(name)
        self._context.logs.made(name).close()
        return self._context.logs.at(name)

    def _job(
        self,
        folder: str,
        tree: str,
        commands: Sequence[str] = (),
        *,
        result: str | None = None,
        acceptance: Mapping[str, str] = {},
        seal: Seal,
    ) -> Job:
        limits = self._checked.suite.limits
        variables = {**self._context.env, **self._checked.workspace.env}
        if self._context.sealer.contained:
            variables = dict(self._checked.workspace.env)
        return Job(
            scratch=self._place.fresh(),
            folder=folder,
            tree=tree,
            marker=f"{self._context.marker}-{token_hex(4)}",
            path=self._context.env["PATH"],
            env=dict.fromkeys(KINDS, variables),
            seal=seal,
            processes=limits.processes or 0,
            secrets=self._context.secrets,
            setup=tuple(commands),
            setup_seconds=limits.setup_seconds,
            output_bytes=_LOG_BYTES,
            grace_seconds=limits.grace_seconds,
            acceptance=dict(acceptance),
            acceptance_seconds=limits.acceptance_seconds,
            result=result,
        )

    def _all(self, jobs: Sequence[Job]) -> list[Untouched]:
        """Run the jobs, and refuse what one of them should run in if that does not start."""
        facts = self._ended(jobs)
        for fact in facts:
            if why := fact.not_started or fact.not_judged:
                raise InputError(f"--isolation {jobs[0].seal.isolation}: {visible(why)}")
        return facts

    def _ended(self, jobs: Sequence[Job]) -> list[Untouched]:
        """Run the jobs, as many at a time as there are slots."""
        waiting = list(enumerate(jobs))[::-1]
        running = 0
        while waiting or running:
            while waiting and running < self._context.executor.slots:
                number, job = waiting.pop()
                self._context.executor.submit(str(number), job, None, None)
                running += 1
            for outcome in self._context.executor.completed(3600.0):
                running -= 1
                if not outcome.complete:
                    raise InputError(f"setup did not finish: {visible(outcome.reason)}")
        return [read_untouched(job.folder) for job in jobs]


def _setup_of(task: SuiteTask) -> tuple[str, tuple[str, ...]]:
    """What tasks with the same workspace have in common."""
    return (task.image or "", task.setup_commands)
