"""A run from its session to its report: what `run` shows, and what a stop looks like."""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import TYPE_CHECKING

from msgspec.structs import replace

from twoarm.commands.console import Streams
from twoarm.commands.exit_codes import BAD, DONE, INTERRUPTED, OF_VERDICT
from twoarm.commands.given import Given, listed, taken, typed, written
from twoarm.commands.outputs import Outputs
from twoarm.commands.score import Asked, exit_code_of, score_and_show
from twoarm.errors import UsageError
from twoarm.options import Options
from twoarm.run.ledger import STOP
from twoarm.text.escape import named, visible

if TYPE_CHECKING:
    from twoarm.run.display import Display
    from twoarm.run.ledger import RunFolder
    from twoarm.run.loop import StoppedError
    from twoarm.run.loop_view import End, StopRequest
    from twoarm.run.prepare import Prepared
    from twoarm.run.report import Collected
    from twoarm.run.schedule import Frozen
    from twoarm.run.session import Session

# The exit codes of runs that show no verdict.
_EARLY: "dict[End, int]" = {
    "stopped": OF_VERDICT["not enough data"],
    "killed": INTERRUPTED,
    "failed": BAD,
}


def finish(
    session: "Session",
    given: Given,
    options: Options,
    streams: Streams,
    again: Sequence[str] = (),
) -> int:
    """Prepare, run, and report what ended by itself; what was stopped shows counts alone.

    `again` is the command that goes on, if that is not a resume of a run.
    """
    from twoarm.commands.run_looks import judge_of
    from twoarm.run.looks import early_end_told, looks_taken
    from twoarm.run.loop import StoppedError

    frozen, finished, resumed = session.setting.frozen, False, resumed_by(given, again)
    if (ended := looks_taken(session.folder).ended) is not None:
        streams.say(f"twoarm: {early_end_told(frozen, ended)}; nothing is left to run")
        session.close(finished=True)
        return _report(session, given, options, session.arms_run(), streams)
    stop_requests = StopRequests(session.folder)
    try:
        _say_where_it_runs(session, streams)
        try:
            prepared = session.prepare()
        except KeyboardInterrupt:
            streams.say(f"twoarm: stopped before the first trial; continue with {resumed}")
            raise
        _say_prepared(session, prepared, streams)
        end: End = "failed"
        try:
            judge = judge_of(session, options)
            with stop_requests, _display(given.get("display"), streams.say) as display:
                end = session.run(prepared, stop_requests.now, display.show, judge)
        except StoppedError as error:
            _say_why_it_stopped(error, resumed, streams)
        if end in ("killed", "stopped"):
            streams.say(f"twoarm: stopped; continue with {resumed}")
            if not session.folder.begun():
                return _EARLY[end]
        made = _collected(session, prepared, end, streams)
        if end == "budget":
            _say_budget(resumed, streams)
        finished = end in ("done", "decided")
        if session.machine.shard is not None and end not in _EARLY:
            _say_share(session, streams)
            return DONE
        between_looks = session.between_looks or (end == "budget" and bool(frozen.looks))
        if end in _EARLY or between_looks:
            if end != "failed":
                _say_counts(session, given["out"], streams)
            return _EARLY.get(end, OF_VERDICT["not enough data"])
    finally:
        session.close(finished=finished)
        for text in session.unswept():
            streams.say(f"twoarm: warning: {text}")
    if session.ended is not None:
        streams.say(f"twoarm: {early_end_told(frozen, session.ended)}")
    return _report(session, given, options, made.arms, streams)


def _collected(
    session: "Session", prepared: "Prepared", end: "End", streams: Streams
) -> "Collected":
    """Write what `score` reads, and say what is odd about it."""
    made = session.report(prepared, end)
    for text in made.caveats:
        streams.say(f"twoarm: caveat: {text}")
    return made


def _say_where_it_runs(session: "Session", streams: Streams) -> None:
    """Where the runs will be, and the machines that make them."""
    streams.say(f"twoarm: run folder {visible(session.folder.path)}")
    if session.fleet is not None:
        streams.say(f"twoarm: {session.fleet.note}")
        for text in session.fleet.warnings:
            streams.say(f"twoarm: warning: {text}")


def _say_prepared(session: "Session", prepared: "Prepared", streams: Streams) -> None:
    """What holds agents back, and what acceptance on untouched workspaces tells."""
    from twoarm.run.isolation import isolation_said
    from twoarm.run.untouched import warnings_of

    isolation, checked = session.machine.isolation, session.setting.checked
    told = isolation_said(isolation, prepared.isolation_reason, checked)
    streams.say(f"twoarm: {told}")
    for text in (*prepared.warnings, *warnings_of(prepared.untouched)):
        streams.say(f"twoarm: warning: {text}")


def refuse_exit_code(given: Given, candidates: Sequence[str]) -> None:
    """Refuse one answer where several are asked for."""
    if "exit_code" in given and len(candidates) > 1:
        raise UsageError(
            f"--exit-code answers for one candidate, and this suite has {len(candidates)}; leave "
            "it out, and ask for each afterwards: twoarm score DIR --candidate ARM --exit-code"
        )


def resumed_by(given: Given, again: Sequence[str] = ()) -> str:
    """The command that goes on with a run, and reports as this one would."""
    words = list(again or ("twoarm", "run", "--resume", given["out"]))
    # The seed is in the folder.
    for name in sorted(given.keys() & {*Options.__struct_fields__, "exit_code"} - {"seed"}):
        value = given[name]
        words += [written(name)] if isinstance(value, bool) else [written(name), listed(value)]
    return typed(*words)


def _say_why_it_stopped(error: "StoppedError", resumed: str, streams: Streams) -> None:
    streams.say(f"twoarm: {error}")
    way = error.way or f"nothing is lost; continue with {resumed}"
    streams.say(f"twoarm: {way}")


def _say_budget(resumed: str, streams: Streams) -> None:
    streams.say(
        "twoarm: the budget does not cover another trial; "
        f"raise it to continue: {resumed} --budget USD"
    )


def _counts(session: "Session") -> str:
    """How much is done and what it cost: not who is ahead."""
    from twoarm.run.display import counts_by_arm, money_so_far

    folder = session.folder
    runs = list(folder.runs())
    counts = counts_by_arm(session.setting.frozen, runs)
    money = money_so_far(runs, list(folder.attempts()), session.setting.terms.budget_usd)
    return ", ".join(filter(None, (counts, money)))


def _say_share(session: "Session", streams: Streams) -> None:
    """Say what a shard has made, and where its verdict comes from."""
    streams.say(f"twoarm: {session.machine.shard}: {_counts(session)}")
    streams.say("twoarm: a shard shows no verdict; for one, twoarm merge DIR... --out ALL")


def _say_counts(session: "Session", out: str, streams: Streams) -> None:
    """Say how much is done, and how to see more."""
    streams.say(f"twoarm: {_counts(session)}")
    if session.machine.shard is not None:
        return
    planned = bool(session.setting.frozen.looks)
    shown = typed("twoarm", "score", out, *["--ignore-looks"] * planned)
    look = "a look that was not planned" if planned else "a look"
    streams.say(
        f"twoarm: {shown} shows the results so far; that is {look}, and to let it decide whether "
        "to go on makes false winners more likely"
    )


def _report(
    session: "Session", given: Given, options: Options, arms: frozenset[str], streams: Streams
) -> int:
    """Score the runs, and say where the results are."""
    if len(jobs := session.jobs_of_runs()) > 1:
        numbers = " and ".join(map(str, jobs))
        streams.say(
            f"twoarm: runs were made at {numbers} jobs; durations may differ for that alone"
        )
    code = report_folder(session.setting.frozen, given, options, arms, streams)
    if code is None:
        return OF_VERDICT["not enough data"]
    _say_where(session, given["out"], streams)
    return code


def report_folder(
    frozen: "Frozen", given: Given, options: Options, arms: frozenset[str], streams: Streams
) -> int | None:
    """Score a run folder and write its reports; None if an arm that it takes has no run yet."""
    from twoarm.score import open_folders

    candidates, baseline = frozen.candidates, frozen.baseline
    absent = [arm for arm in (*candidates, baseline) if arm not in arms]
    # One of several candidates may have none: the report has a row that says so.
    if baseline in absent or set(absent) == {*candidates}:
        streams.say(f"twoarm: no run of arm {named(absent[0])} yet; there is nothing to score")
        return None
    alone = candidates[0] if len(candidates) == 1 else None
    options = replace(options, candidate=alone, baseline=baseline, seed=frozen.seed)
    folders = open_folders([given["out"]])
    outputs, which = taken(Outputs, given), given.get("run_pages", "all")
    asked = Asked(folders.files, options, candidates, folders.studies)
    return exit_code_of(score_and_show(asked, outputs, streams, which), given, streams)


def _say_where(session: "Session", out: str, streams: Streams) -> None:
    """Say where the results are, in the last lines."""
    page = session.folder.at("report.html")
    if os.path.exists(page):
        streams.say(f"twoarm: the report is {visible(page)}")
    done = {run.trial.id for run in session.folder.runs()}
    # A block of which every arm ran, if there is one.
    blocks = session.setting.frozen.blocks
    first = max(blocks, key=lambda block: sum(trial.id in done for trial in block))[0]
    shown = typed("twoarm", "show", out, first.task, str(first.repeat))
    streams.say(f"twoarm: see one run with {shown}")


def _display(name: str | None, say: Callable[[str], None]) -> "Display":
    from twoarm.run.display import Display, Live, LogLines, Unawaited

    if name == "quiet":
        return Display()
    if sys.stderr.isatty() and name != "lines":
        try:
            return Live(Unawaited(sys.stderr))
        except OSError:
            # It may be somebody else's, and still be written to.
            return Live(sys.stderr)
    return LogLines(say)


class StopRequests:
    """What the user wants by now: Ctrl-C once to finish, twice to end at once; or a stop file."""

    def __init__(self, folder: "RunFolder") -> None:
        self._folder = folder.folder
        # Left by an earlier run; a request that comes from now on is heeded.
        self._folder.remove(STOP)
        self._asked = 0
        self._before: list[tuple[int, object]] = []

    def __enter__(self) -> "StopRequests":
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # Whoever ignores a signal, as `nohup` or a script's background job does, wants that.
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before.append((number, signal.signal(number, self._heard)))
        return self

    def __exit__(self, *raised: object) -> None:
        for number, before in self._before:
            signal.signal(number, before)  # type: ignore[arg-type]

    def _heard(self, number: int, frame: FrameType | None) -> None:
        self._asked += 1 if number == signal.SIGINT else 2

    def now(self) -> "StopRequest":
        """What is wanted now."""
        if self._asked >= 2:
            return "kill"
        if self._asked:
            return "ctrl_c"
        return "finish" if self._folder.look(STOP) is not None else "go"
