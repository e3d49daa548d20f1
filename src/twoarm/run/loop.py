"""The whole program: start what is next, settle what has ended, until nothing is left to do."""

import time
from collections import deque
from collections.abc import Callable, Iterable
from statistics import fmean

from twoarm.errors import InputError
from twoarm.run.attempted import Attempted
from twoarm.run.budget import Budget
from twoarm.run.executor import Executor
from twoarm.run.job_maker import JobMaker
from twoarm.run.jobs import JobOutcome
from twoarm.run.ledger import BEGUN, RunFolder
from twoarm.run.looks import LookTaker
from twoarm.run.loop_view import End, LoopView, Slot, StopRequest
from twoarm.run.schedule import Block, Trial
from twoarm.run.settle import (
    FORBIDDEN,
    UNAUTHORIZED,
    RunReader,
    abandon,
    key_refused,
    settle,
    supervisor_died,
)
from twoarm.text.escape import counted, named, visible

# This many infra failures in a row, and the whole run stops.
ENOUGH = 6
# It also stops if this many runs of each arm at the start cannot be read.
FIRST = 2
_LONGEST_PAUSE_SECONDS = 600.0
_TICK_SECONDS = 0.25
# Facts of an attempt after which the next would do no better.
_STOPPING = frozenset({"not_started", "not_judged", "tree_changed"})


class Loop:
    """The state of a run, and the steps that change it."""

    def __init__(
        self,
        folder: RunFolder,
        job_maker: JobMaker,
        executor: Executor,
        budget: Budget,
        reader: RunReader,
        *,
        retries: int,
        retry_seconds: float,
    ) -> None:
        self._folder = folder
        self._job_maker = job_maker
        self._executor = executor
        self._budget = budget
        self._reader = reader
        self._retries = retries
        self._retry_seconds = retry_seconds
        self._slots = [Slot(number) for number in range(executor.slots)]
        # Attempts of each trial by number, ever; and infra failures of each in this session.
        self._numbers: dict[str, int] = {}
        self._failures: dict[str, int] = {}
        self._infra: set[str] = set()
        # In this session, which has its own key and perhaps an agent that was fixed: the arms that
        # a provider has answered, and why nothing can be read of the first runs of each arm.
        self._answered: set[str] = set()
        self._unread: dict[str, list[str | None]] = {}
        self._in_a_row = 0
        self._lost_nodes: set[str] = set()
        self._pause_until = 0.0
        self._reason = ""
        # The last few, for an estimate of what is left.
        self._seconds: deque[float] = deque(maxlen=100)
        self._done: set[str] = set()
        self._waiting: deque[tuple[Trial, ...]] = deque()
        self._all = 0
        self._arms: set[str] = set()
        self._stop: StoppedError | None = None
        self._request: StopRequest = "go"
        self._looks: LookTaker

    def run(
        self,
        blocks: Iterable[Block],
        looks: LookTaker,
        stop_request: Callable[[], StopRequest],
        show: Callable[[LoopView], None],
    ) -> End:
        """Run the blocks; `stop_request` is asked all the time, `show` told all the time."""
        self._looks = looks
        self._plan(blocks)
        self._folder.say("started", done=len(self._done), of=self._all, slots=self._executor.slots)
        end = self._go(stop_request, show)
        self._folder.say("ended", end=end, done=len(self._done), of=self._all)
        return end

    def _journaled(self, request: StopRequest) -> StopRequest:
        """What is requested, with each change in the journal."""
        if self._stop is not None and request == "go":
            # What is running has been paid for, so it may finish.
            request = "finish"
        if request != self._request:
            self._request = request
            self._folder.say("stop_request", request=request)
        return request

    def _go(self, stop_request: Callable[[], StopRequest], show: Callable[[LoopView], None]) -> End:
        while True:
            request = self._journaled(stop_request())
            if request == "kill":
                self._kill(show)
                return "killed"
            # Asked once: a pause that ends in between is not a lack of money.
            pausing = time.monotonic() < self._pause_until
            if request == "go" and not pausing:
                self._start()
            show(self._view(request))
            running = any(slot.attempted for slot in self._slots)
            if not running:
                if self._stop is not None:
                    raise self._stop
                if not self._waiting and not any(slot.trials for slot in self._slots):
                    return "done"
                if request != "go":
                    return "stopped"
                if self._at_look():
                    if self._looks.take():
                        return "decided"
                    continue
                if not pausing:
                    return "budget"
            for outcome in self._executor.completed(_TICK_SECONDS):
                self._end(outcome)
            self._watch()
            if not running:
                time.sleep(min(_TICK_SECONDS, max(0.0, self._pause_until - time.monotonic())))

    # What is done, and what is not.

    def _plan(self, blocks: Iterable[Block]) -> None:
        """What the folders tell: done, spent, left unfinished by an earlier runner."""
        for run in self._folder.runs():
            self._folder.check_whole(run)
            self._done.add(run.trial.id)
            self._numbers[run.trial.id] = run.attempt
            self._budget.charge(run.charged_usd, run.cost_usd)
        for attempted in sorted(self._folder.attempts(), key=lambda attempted: attempted.attempt):
            name = attempted.trial.id
            self._numbers[name] = max(self._numbers.get(name, 0), attempted.attempt)
            if attempted.state == "running":
                attempted = self._adopted(attempted)
            if attempted.state == "run" and name not in self._done:
                self._publish(attempted)
            elif attempted.state == "infra" and name not in self._done:
                self._infra.add(name)
            self._budget.charge(attempted.charged_usd, attempted.cost_usd)
        whole = []
        for block in blocks:
            self._all += len(block)
            left = tuple(
                trial
                for trial in block
                if trial.id not in self._done and not self._looks.is_closed(trial)
            )
            self._arms.update(trial.arm for trial in block)
            if 0 < len(left) < len(block):
                # Other arms have run: what is left of the block is next.
                self._waiting.append(left)
            elif left:
                whole.append(left)
        self._waiting.extend(whole)

    def _adopted(self, attempted: Attempted) -> Attempted:
        """An attempt that an earlier runner did not see end."""
        died = "the runner died before it ended"
        settled = self._settled(attempted, died, interrupted=True)
        self._folder.record(settled)
        self._folder.say("adopted", attempt=settled.id, state=settled.state)
        return settled

    def _settled(self, attempted: Attempted, otherwise: str, *, interrupted: bool) -> Attempted:
        """What its supervisor told, if that is on the disk."""
        try:
            with self._folder.attempt(attempted) as folder:
                return settle(folder, attempted, self._reader)
        except FileNotFoundError:
            return abandon(attempted, otherwise, interrupted=interrupted)

    # Starting.

    def _start(self) -> None:
        """Fill the slots, as far as there is money."""
        for slot in self._slots:
            if slot.attempted is not None:
                continue
            if not self._executor.is_there(slot.number):
                self._move(slot)
                continue
            if not slot.trials and not self._take(slot):
                continue
            trial = slot.trials[0]
            if self._budget.reserved_for(trial.id) is None and self._budget.terms.budget_usd:
                # A retry: what was reserved is spent.
                if not self._budget.admits(1):
                    continue
                self._budget.reserve(trial.id)
            slot.trials.popleft()
            self._begin(slot, trial)

    def _move(self, slot: Slot) -> None:
        """The node of a slot is gone: what is left of its block is next, wherever that is."""
        if slot.trials:
            for trial in slot.trials:
                self._budget.free(trial.id)
            self._waiting.appendleft(tuple(slot.trials))
            slot.trials.clear()
        if not any(self._executor.is_there(other.number) for other in self._slots):
            self._stop = StoppedError("every node of the cluster that trials ran on was lost")

    def _at_look(self) -> bool:
        """Whether nothing but trials after the next look is left to start."""
        return not any(slot.trials for slot in self._slots) and self._looks.holds_back(
            self._waiting[0][0]
        )

    def _take(self, slot: Slot) -> bool:
        """The next block, if no look comes before it and all of it is paid for."""
        if not self._waiting or self._looks.holds_back(self._waiting[0][0]):
            return False
        if not self._budget.admits(len(self._waiting[0])):
            return False
        slot.trials = deque(self._waiting.popleft())
        for trial in slot.trials:
            self._budget.reserve(trial.id)
        return True

    def _begin(self, slot: Slot, trial: Trial) -> None:
        number = self._numbers.get(trial.id, 0) + 1
        self._numbers[trial.id] = number
        attempted = Attempted(
            task=trial.task,
            repeat=trial.repeat,
            arm=trial.arm,
            attempt=number,
            jobs=self._executor.slots,
            state="running",
            node=self._executor.node_of(slot.number),
            reserved_usd=self._budget.reserved_for(trial.id) or self._budget.reservation(),
        )
        try:
            job, meter = self._job_maker.make(trial, self._folder.folder_of(attempted))
        except InputError as error:
            # The cache is not what it was, and no trial can start.
            self._numbers[trial.id] = number - 1
            slot.trials.appendleft(trial)
            self._stop = StoppedError(str(error))
            return
        self._folder.begin(attempted)
        where = {} if attempted.node is None else {"node": attempted.node}
        self._folder.mention(BEGUN, attempt=attempted.id, **where)
        limit = self._budget.terms.trial_usd
        slot.watch = self._executor.submit(attempted.id, job, meter, limit, slot.number)
        slot.attempted, slot.since = attempted, time.monotonic()

    # Ending.

    def _watch(self) -> None:
        """End attempts that ask again and again with a key that is refused."""
        for slot in self._slots:
            if slot.attempted is None or slot.watch is None or slot.refusal is not None:
                continue
            refusal = slot.watch.refused()
            if refusal is not None and self._is_wrong_key(slot.attempted.arm, refusal.status):
                slot.refusal = refusal
                self._executor.cancel(slot.attempted.id)

    def _is_wrong_key(self, arm: str, status: int | None) -> bool:
        """Whether asking again would be in vain: later, quotas and proxies say the same."""
        if status == UNAUTHORIZED:
            # The arms may have a key each.
            return arm not in self._answered
        return status == FORBIDDEN and not self._answered

    def _end(self, outcome: JobOutcome) -> None:
        """Settle one attempt; publish it, try again, or stop."""
        slot, attempted = next(
            (slot, slot.attempted)
            for slot in self._slots
            if slot.attempted is not None and slot.attempted.id == outcome.attempt
        )
        seconds = time.monotonic() - slot.since
        if outcome.complete:
            settled = self._settled(attempted, "its outcome is gone", interrupted=False)
        elif slot.refusal is not None:
            settled = key_refused(attempted, slot.refusal, seconds)
        elif outcome.died and not outcome.cancelled:
            with self._folder.attempt(attempted) as folder:
                settled = supervisor_died(folder, attempted, self._reader, seconds, outcome.reason)
        else:
            settled = abandon(
                attempted, outcome.reason, interrupted=outcome.cancelled, begun=outcome.begun
            )
        self._folder.record(settled)
        self._budget.free(settled.trial.id)
        self._budget.charge(settled.charged_usd, settled.cost_usd)
        slot.attempted = slot.watch = slot.refusal = None
        self._seconds.append(seconds)
        if settled.facts.get("answered"):
            self._answered.add(settled.arm)
        if settled.state == "run":
            self._publish(settled)
        elif settled.state in ("infra", "lost"):
            self._failed(slot, settled, outcome.lost_node)
        self._look_at_first(settled)
        self._folder.say(
            "ended attempt", attempt=settled.id, state=settled.state, reason=settled.reason
        )

    def _publish(self, settled: Attempted) -> None:
        self._folder.publish(settled)
        self._done.add(settled.trial.id)
        self._infra.discard(settled.trial.id)
        self._in_a_row = 0

    def _look_at_first(self, settled: Attempted) -> None:
        """Stop if none of the first runs can be read: the others would be no different."""
        first = self._unread.setdefault(settled.arm, [])
        if settled.state != "run" or len(first) == FIRST:
            return
        first.append(settled.facts.get("unread"))
        reasons = [why for arm in self._unread.values() for why in arm if why is not None]
        if len(reasons) == FIRST * len(self._arms):
            self._stop = StoppedError(
                f"nothing can be read of the first {FIRST} runs of each arm: "
                f"{visible(reasons[0])}; see {visible(self._folder.run_of(settled.trial))}",
                "fix that, then start over with another --out; with --resume these runs would "
                "stay as they are",
            )

    def _failed(self, slot: Slot, settled: Attempted, lost_node: str) -> None:
        """An infra failure: no trial of any arm starts for a while, then this one again.

        Trials that are lost with their node are one failure, and other nodes do not wait for it.
        """
        name = settled.trial.id
        if not lost_node or lost_node not in self._lost_nodes:
            self._in_a_row += 1
        self._lost_nodes.add(lost_node)
        self._failures[name] = self._failures.get(name, 0) + 1
        self._reason = settled.reason or "no reason given"
        pause = self._retry_seconds * 2 ** (self._in_a_row - 1)
        if not lost_node:
            self._pause_until = time.monotonic() + min(pause, _LONGEST_PAUSE_SECONDS)
        status = settled.facts.get("refused")
        if self._is_wrong_key(settled.arm, status):
            self._infra.add(name)
            reason = visible(self._reason).rstrip(".")
            self._stop = StoppedError(
                f"the provider refuses the agent with status {status}: {reason}; "
                "check the key and what it may use"
            )
        elif _STOPPING & settled.facts.keys():
            # An agent that was not judged has not failed.
            self._infra.add(name)
            self._stop = StoppedError(visible(self._reason))
        elif self._failures[name] <= self._retries:
            slot.trials.appendleft(settled.trial)
        else:
            self._infra.add(name)
            if settled.facts.get("setup_exit_code"):
                self._stop = StoppedError(
                    f"the setup of arm {named(settled.arm)} keeps failing "
                    f"(exit code {settled.facts['setup_exit_code']}); "
                    f"see {visible(self._folder.folder_of(settled))}/setup.log; if setup_commands "
                    "have to change, start over with another --out"
                )
        if self._in_a_row >= ENOUGH:
            self._stop = StoppedError(
                f"{counted(self._in_a_row, 'attempt')} in a row failed for reasons that are not "
                f"the agent's; the last one: {visible(self._reason)}"
            )

    def _kill(self, show: Callable[[LoopView], None]) -> None:
        """End what runs; nothing of it is a run."""
        for slot in self._slots:
            if slot.attempted is not None:
                self._executor.cancel(slot.attempted.id)
        while any(slot.attempted for slot in self._slots):
            for outcome in self._executor.completed(_TICK_SECONDS):
                self._end(outcome)
            show(self._view("kill"))

    def _view(self, stop_request: StopRequest) -> LoopView:
        return LoopView(
            trials=self._all,
            done=len(self._done),
            infra=len(self._infra),
            running={
                slot.number: (slot.attempted, slot.since)
                for slot in self._slots
                if slot.attempted is not None
            },
            spent=self._budget.spent,
            reserved=self._budget.reserved,
            budget=self._budget.terms.budget_usd,
            unknown_costs=self._budget.unknown,
            paused_until=self._pause_until,
            reason=self._reason,
            each_seconds=fmean(self._seconds) if self._seconds else None,
            stop_request=stop_request,
        )


class StoppedError(InputError):
    """The run cannot go on as it is; nothing is lost, and --resume goes on.

    `way` says what to do where that is not the best.
    """

    def __init__(self, message: str, way: str | None = None) -> None:
        super().__init__(message)
        self.way = way
