"""The runs of a folder, graded again one by one: what each left is put back, and judged anew."""

import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator
from statistics import fmean
from typing import Any

import msgspec

from twoarm.errors import InputError
from twoarm.files.safe import OpenFolder
from twoarm.programs.moment import utc_text
from twoarm.programs.sidecar import NAME
from twoarm.run.attempted import Attempted
from twoarm.run.freeze import changed_graders
from twoarm.run.graded import PATCHES, Graded
from twoarm.run.jobs import Job, JobOutcome
from twoarm.run.ledger import BEGUN, OUTCOME, TRIAL, MachineSettings, RunFolder, read_outcome
from twoarm.run.looks import EarlyEnd, Judge, looks_taken, remember
from twoarm.run.loop import StoppedError
from twoarm.run.loop_view import End, LoopView, StopRequest
from twoarm.run.merged import SHARDS
from twoarm.run.prepare import Prepared
from twoarm.run.receipt import NOT_REGRADED, REGRADED, REGRADED_AT, regraded_from
from twoarm.run.report import Collected
from twoarm.run.session import Session
from twoarm.run.setting import Setting
from twoarm.run.settle import abandon, regraded
from twoarm.run.whole_trees import earlier_trees
from twoarm.runs.study import COLLECTED
from twoarm.text.escape import counted, named, shortened, visible

_TICK_SECONDS = 0.25
# What a folder says of its runs besides, which holds for them however they are graded.
_CARRIED = ("doubts.json", "unchecked.json", "reports.jsonl", SHARDS)
# How the facts that acceptance tells begin, and how its logs do.
_GRADED = ("acceptance_", "check", "score", "broken")
_LOG = "acceptance"


class Regrading(Session):
    """A run folder whose runs are made of those of another."""

    def __init__(
        self, folder: RunFolder, setting: Setting, machine: MachineSettings, source: Graded
    ) -> None:
        super().__init__(folder, setting, machine)
        self._source = source
        self._waiting: deque[Attempted] = deque()
        # By the names of attempts: what is graded, and since when.
        self._running: dict[str, tuple[Attempted, float]] = {}
        self._done = 0
        self._seconds: deque[float] = deque(maxlen=100)

    @property
    def run_folders(self) -> tuple[str, ...]:
        """This one, and the one that the runs are from."""
        return (*super().run_folders, os.path.realpath(self._source.folder.path))

    def _changed_in_suite(self) -> list[str]:
        """Of what grades runs alone: there is no agent."""
        return list(changed_graders(self.setting.checked, self.setting.frozen))

    def prepare(self) -> Prepared:
        """Builds and trees, which have to be those that the runs started from."""
        prepared = super().prepare()
        known = {**self._source.receipt.digests, **earlier_trees(self._source.folder)}
        for key, now in prepared.digests.items():
            then = known.get(key)
            if key.startswith("trees.") and now != then:
                raise InputError(
                    f"the workspace of task {named(key.removeprefix('trees.'))} has other files "
                    f"than its runs started from: digest {(then or 'not known')[:12]} then, "
                    f"{now[:12]} now; its setup has to make the same files again"
                )
        return prepared

    def run(
        self,
        prepared: Prepared,
        stop_request: Callable[[], StopRequest],
        show: Callable[[LoopView], None],
        judge: Judge,
    ) -> End:
        """Grade what is not graded yet, as many at a time as there are slots.

        The look that the runs ended at is taken again.
        """
        self._carry_over()
        done = {run.trial.id for run in self.folder.runs()}
        self._done = len(done & self._source.runs.keys())
        for trial in self.setting.frozen.trials:
            run = self._source.runs.get(trial.id)
            if run is not None and trial.id not in done:
                self._waiting.append(run)
        self.folder.say("started", done=self._done, of=len(self._source.runs))
        try:
            end = self._go(prepared, stop_request, show)
        except StoppedError:
            self.check_trees(prepared)
            raise
        self.folder.say("ended", end=end, done=self._done, of=len(self._source.runs))
        if end != "killed":
            self.check_trees(prepared)
        if end == "done":
            self._finish(judge)
        return end

    def _finish(self, judge: Judge) -> None:
        """Take the last look again, and let the folder be continued."""
        looks, stopped = looks_taken(self._source.folder), self._source.receipt.end
        if looks.ended is not None:
            after = looks.ended.after
            because = judge(after)
            looks = msgspec.structs.replace(looks, ended=None)
            if because is None:
                looks = msgspec.structs.replace(looks, taken=(*looks.taken, after))
            else:
                self.ended = EarlyEnd(after=after, because=dict(because))
        elif self.setting.frozen.looks and stopped != "done":
            self.between_looks = True
        if self.setting.frozen.looks:
            remember(self.folder, looks)
        told = regraded_from(self.folder)
        assert told is not None
        told = msgspec.structs.replace(told, finished=True)
        self.folder.folder.write(REGRADED, msgspec.json.encode(told))

    def _go(
        self,
        prepared: Prepared,
        stop_request: Callable[[], StopRequest],
        show: Callable[[LoopView], None],
    ) -> End:
        while self._waiting or self._running:
            request = stop_request()
            if request == "kill":
                self._kill()
                return "killed"
            while request == "go" and self._waiting and len(self._running) < self.executor.slots:
                self._begin(self._waiting.popleft(), prepared)
            show(self._view(request))
            if not self._running and self._waiting and request != "go":
                return "stopped"
            for outcome in self.executor.completed(_TICK_SECONDS):
                self._end(outcome, prepared)
        show(self._view("go"))
        return "done"

    def _kill(self) -> None:
        """End what runs; it is graded by the next one."""
        for attempt in self._running:
            self.executor.cancel(attempt)
        while self._running:
            for outcome in self.executor.completed(_TICK_SECONDS):
                del self._running[outcome.attempt]

    def _begin(self, run: Attempted, prepared: Prepared) -> None:
        if why := self._source.why_not(run):
            self._leave(run, why)
            return
        self._clear(run)
        job = self._job(run, prepared)
        self.folder.mention(BEGUN, attempt=run.id)
        self.executor.submit(run.id, job, None, None)
        self._running[run.id] = run, time.monotonic()

    def _job(self, run: Attempted, prepared: Prepared) -> Job:
        """The job of a trial, with what its agent left in place of the agent."""
        job, _ = self.job_maker(prepared).make(run.trial, self.folder.folder_of(run))
        where = self._source.folder.run_of(run.trial)
        patches = tuple(os.path.join(where, name) for name in PATCHES if name in _files(run))
        return msgspec.structs.replace(
            job, argv=(), after=(), keep={}, home_texts={}, home_files={}, patches=patches
        )

    def _end(self, outcome: JobOutcome, prepared: Prepared) -> None:
        run, since = self._running.pop(outcome.attempt)
        self._seconds.append(time.monotonic() - since)
        if outcome.died:
            # What the agent left did that, as it would have at the time.
            self._leave(run, outcome.reason)
            return
        if not outcome.complete:
            raise StoppedError(f"{visible(run.trial.id)}: {visible(outcome.reason)}")
        with self.folder.attempt(run) as folder:
            facts = read_outcome(folder)
            if "tree_changed" in facts:
                raise StoppedError(f"{visible(facts['tree_changed'])} was changed in the tree")
            for why in ("not_started", "not_judged"):
                if why in facts:
                    raise StoppedError(f"acceptance could not be run: {visible(facts[why])}")
            settled = self._settled(folder, run, facts, prepared)
        if isinstance(settled, str):
            self._leave(run, settled)
        else:
            self._publish(settled)

    def _settled(
        self, folder: OpenFolder, run: Attempted, facts: dict[str, Any], prepared: Prepared
    ) -> Attempted | str:
        """A run with what acceptance says now; or why it is left as it was."""
        if facts["setup_exit_code"]:
            return f"the setup of its arm failed with exit code {facts['setup_exit_code']}"
        if "not_put_back" in facts:
            return str(facts["not_put_back"])
        for name in folder.names():
            if not name.startswith(_LOG):
                folder.remove(name)
        with self._source.open_run(run) as before:
            _copy_files(before, folder, lambda name: name != NAME and not name.startswith(_LOG))
        agent = {name: fact for name, fact in _facts(run) if not name.startswith(_GRADED)}
        graded = {name: fact for name, fact in facts.items() if name.startswith(_GRADED)}
        at = {REGRADED_AT: utc_text(time.time())}
        return regraded(folder, run, {**agent, **graded, **at}, self.reader(prepared))

    def _publish(self, run: Attempted) -> None:
        self.folder.record(run)
        self.folder.publish(run)
        self._done += 1

    def _leave(self, run: Attempted, why: str) -> None:
        """Keep a run as it was, and say why it was not graded again."""
        self._clear(run)
        with self._source.open_run(run) as before, self.folder.attempt(run) as folder:
            _copy_files(before, folder, lambda name: True)
        facts = {**dict(_facts(run)), NOT_REGRADED: why}
        self._publish(msgspec.structs.replace(run, facts=facts))

    def _clear(self, run: Attempted) -> None:
        """An empty folder for a run, whatever an earlier runner left there."""
        above, name = self.folder.folder.parent_of(f".attempts/{run.id}", make=True)
        with above:
            above.remove(name)
            above.made(name).close()

    def _carry_over(self) -> None:
        """Attempts without a run stay what they were, with all that is known of them."""
        files = self._source.folder.folder
        for name in _CARRIED:
            if files.is_file(name) and self.folder.folder.look(name) is None:
                self.folder.folder.write(name, files.read(name))
        there = {attempt.id for attempt in self.folder.attempts()}
        for attempt in self._source.folder.attempts():
            if attempt.id in there:
                continue
            self._clear(attempt)
            before = self._source.open_attempt(attempt)
            with before, self.folder.attempt(attempt) as folder:
                _copy_files(before, folder, lambda name: True)
            if attempt.state == "running":
                attempt = abandon(attempt, "the runner died before it ended", interrupted=True)
            self.folder.record(attempt)

    def report(self, prepared: Prepared, end: End) -> Collected:
        """Write what `score` reads and the receipt; a run that was left as it was is a caveat."""
        # What has no run has none for the reasons of then.
        then = self._source.receipt.end
        if then == "decided" and self.ended is None:
            then = "stopped"
        collected = super().report(prepared, then if end == "done" else end)
        left = {
            run.trial.id: run.facts[NOT_REGRADED]
            for run in self.folder.runs()
            if NOT_REGRADED in run.facts
        }
        if not left:
            return collected
        listing = "; ".join(f"{name}: {why}" for name, why in left.items())
        keep, them, folders = (
            ("keeps", "it", "its folder") if len(left) == 1 else ("keep", "them", "their folders")
        )
        caveat = (
            f"{counted(len(left), 'run')} could not be graded again and {keep} the verdict of "
            f"then: {visible(shortened(listing, 500))}; to count {them} as missing instead, "
            f"remove {folders} below {visible(self.folder.at('runs'))} and {COLLECTED}, then score"
        )
        return msgspec.structs.replace(collected, caveats=(*collected.caveats, caveat))

    def close(self, *, finished: bool) -> None:
        """End what runs; leave both folders."""
        super().close(finished=finished)
        self._source.folder.release()

    def _view(self, request: StopRequest) -> LoopView:
        return LoopView(
            trials=len(self._source.runs),
            done=self._done,
            infra=0,
            running=dict(enumerate(self._running.values())),
            spent=0.0,
            reserved=0.0,
            budget=None,
            unknown_costs=0,
            paused_until=0.0,
            reason="",
            each_seconds=fmean(self._seconds) if self._seconds else None,
            stop_request=request,
        )


def _files(run: Attempted) -> dict[str, int]:
    """The files of a run and their sizes."""
    files: dict[str, int] = run.facts.get("files", {})
    return files


def _facts(run: Attempted) -> Iterator[tuple[str, Any]]:
    """What is known of a run, without how it was graded again before."""
    for name, fact in run.facts.items():
        if name not in (REGRADED_AT, NOT_REGRADED):
            yield name, fact


def _copy_files(source: OpenFolder, target: OpenFolder, wanted: Callable[[str], bool]) -> None:
    """Files to another folder, without those that say what became of them there."""
    for name in source.names():
        status = source.look(name)
        if status is None or not source.is_file(name) or name in (TRIAL, OUTCOME):
            continue
        if wanted(name):
            mode = status.st_mode & 0o777
            with (
                open(source.open(name), "rb") as file,
                open(target.create(name, mode), "wb") as made,
            ):
                shutil.copyfileobj(file, made)
