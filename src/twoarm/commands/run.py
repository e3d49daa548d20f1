"""The `run` command: its options, and what it does with them."""

import os
import re
import shlex
import signal
import sys
import tempfile
import time
from argparse import ArgumentParser, _ArgumentGroup
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

from msgspec.structs import replace

from twoarm.commands.console import Streams
from twoarm.commands.exit_codes import BAD, DONE, INTERRUPTED, OF_VERDICT, RUN_HELP
from twoarm.commands.given import OF_A_DRY_RUN, Given, taken, written
from twoarm.commands.outputs import Outputs, refuse_score_outputs
from twoarm.commands.score import score_and_show
from twoarm.commands.score_options import (
    add_report_options,
    add_run_pages_option,
    whole_number,
)
from twoarm.commands.score_options import (
    number as amount,
)
from twoarm.errors import UsageError
from twoarm.options import Options
from twoarm.text.escape import counted, named, visible

if TYPE_CHECKING:
    from twoarm.run.display import Display
    from twoarm.run.ledger import RunFolder
    from twoarm.run.loop import End, StopRequest
    from twoarm.run.session import Session
    from twoarm.run.setting import RunOptions

# The scripted agent of the demo sleeps most of the time.
_DEMO_JOBS = 4
# A file in the run folder that asks for no new trials.
STOP = "stop"
# The most repeats, jobs and dollars.
_MOST = 1_000_000
# The exit codes of runs that show no verdict.
_EARLY: "dict[End, int]" = {
    "stopped": OF_VERDICT["not enough data"],
    "killed": INTERRUPTED,
    "failed": BAD,
}


DESCRIPTION = (
    "Run a suite: an agent on every task in two arms, in clean workspaces and in an order that\n"
    "keeps drift out of the comparison, within a budget; then score the runs."
)
EPILOG = RUN_HELP


def add_options(parser: ArgumentParser) -> None:
    """The arguments of `twoarm run`, with those of every report."""
    _add_suite_options(parser.add_argument_group("what to run"))
    _add_other_runs(parser.add_argument_group("instead"))
    _add_limits(parser.add_argument_group("limits"))
    output = add_report_options(parser, out="the run folder (default: named after suite and time)")
    add_run_pages_option(output, "all")
    output.add_argument(
        "--keep",
        choices=("none", "failed", "all"),
        help="which workspaces to keep in the run folder (default: none)",
    )
    output.add_argument(
        "--display",
        choices=("live", "lines", "quiet"),
        help="how to show progress (default: live on a terminal, otherwise lines)",
    )


def _add_suite_options(group: _ArgumentGroup) -> None:
    group.add_argument("suite", nargs="?", metavar="SUITE", help="a suite, TOML or JSON")
    group.add_argument(
        "--repeats",
        type=whole_number,
        metavar="N",
        help="runs of every task in each arm (default: 5)",
    )
    group.add_argument("--only", metavar="ID,...", help="only these tasks")
    group.add_argument("--tag", action="append", help="only tasks with this tag")
    group.add_argument(
        "--isolation",
        choices=("copy", "bwrap"),
        help="a private copy of the workspace, or also no writing outside it (default: copy)",
    )
    group.add_argument("--yes", action="store_true", help="start without asking")


def _add_other_runs(group: _ArgumentGroup) -> None:
    group.add_argument("--resume", metavar="DIR", help="continue a run")
    group.add_argument("--status", metavar="DIR", help="show how far a run is")
    group.add_argument(
        "--stop",
        metavar="DIR",
        help="start no new trials; end when the running ones have finished",
    )
    group.add_argument(
        "--demo", action="store_true", help="run a bundled suite with a bundled scripted agent"
    )
    group.add_argument(
        "--dry-run",
        action="store_true",
        help="check, build and try everything but the agent, and say what to expect",
    )


def _add_limits(group: _ArgumentGroup) -> None:
    group.add_argument("--jobs", type=whole_number, metavar="N", help="trials at a time")
    group.add_argument("--budget", type=amount, metavar="USD", help="for all trials together")
    group.add_argument("--trial-budget", type=amount, metavar="USD", help="for one trial")


def run(given: Given, streams: Streams) -> int:
    """Run, resume, rehearse, stop, or say where a run stands."""
    from twoarm.run.ledger import unwritable
    from twoarm.run.session import refuse_other_systems
    from twoarm.run.suite_file import SuiteError

    refuse_other_systems()
    try:
        if "status" in given:
            return _status(given["status"], streams)
        if "stop" in given:
            return _stop(given["stop"], streams)
        if "resume" in given:
            return _resume(given["resume"], given, streams)
        if "demo" in given:
            given = _demo(given)
        if "suite" not in given:
            raise UsageError("which suite? write twoarm run SUITE, or try twoarm run --demo")
        return _start(given, streams)
    except SuiteError as error:
        streams.say(str(error))
        streams.say(f"twoarm: {counted(len(error.problems), 'problem')}; nothing was run")
        return BAD
    except OSError as error:
        where = error.filename or given.get("out") or given.get("resume") or "the run folder"
        raise unwritable(str(where), error) from error


def _resume(out: str, given: Given, streams: Streams) -> int:
    from twoarm.run.ledger import RunFolder
    from twoarm.run.session import resume

    options, outputs = taken(Options, given), taken(Outputs, given, out=out)
    before = RunFolder(out).machine()
    suite = given.get("suite")
    refuse_score_outputs(outputs, [suite or before.suite])
    session = resume(out, suite, _run_options(given, options), os.environ)
    if session.machine.jobs != before.jobs:
        streams.say(
            f"twoarm: {counted(session.machine.jobs, 'job')} now, {before.jobs} before: "
            "durations may differ for that alone"
        )
    return _finish(session, {**given, "out": out}, options, streams)


def _start(given: Given, streams: Streams) -> int:
    from twoarm.run.session import start
    from twoarm.run.setting import notes, set_up

    suite: str = given["suite"]
    options = taken(Options, given)
    run_options = _run_options(given, options)
    setting = set_up(suite, run_options, os.environ)
    if "dry_run" in given:
        from twoarm.run.rehearse import outlook, rehearse

        lines = outlook(setting, rehearse(setting), _without_dry_run(given))
        streams.write("".join(f"{line}\n" for line in lines))
        return DONE
    for text in notes(setting):
        streams.say(f"twoarm: {text}")
    out: str = given.get("out") or _folder_name(setting.frozen.suite_id)
    refuse_score_outputs(taken(Outputs, given, out=out), [suite])
    trials, budget = len(setting.frozen.trials), setting.terms.budget_usd
    if "yes" not in given and not _agreed(trials, budget, out, streams):
        streams.say("twoarm: nothing was started")
        return INTERRUPTED
    session = start(suite, out, run_options, setting)
    return _finish(session, {**given, "out": out}, options, streams)


def _folder_name(suite_id: str) -> str:
    """A name in this folder, whatever the suite is called."""
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", suite_id).lstrip(".-")[:100]
    return f"{plain or 'run'}-{time.strftime('%Y%m%d-%H%M%S')}"


def _without_dry_run(given: Given) -> str:
    """The command that starts what was rehearsed."""
    words = ["twoarm", "run", given["suite"]]
    for name, value in given.items():
        if name in OF_A_DRY_RUN and name != "suite":
            for each in value if isinstance(value, list) else [value]:
                words += [written(name), str(each)]
    return _typed(*words)


def _demo(given: Given) -> Given:
    """The bundled suite, into a folder of its own."""
    from importlib.resources import files

    suite = str(files("twoarm").joinpath("run", "demo", "suite.toml"))
    out = given.get("out") or os.path.join(tempfile.mkdtemp(prefix="twoarm-demo-"), "run")
    return {"jobs": _DEMO_JOBS, **given, "suite": suite, "out": out, "yes": True}


def _agreed(trials: int, budget: float | None, out: str, streams: Streams) -> bool:
    """Ask once before money is spent, if there is somebody to ask."""
    if not sys.stderr.isatty() or not sys.stdin.isatty():
        return True
    money = "no budget" if budget is None else f"a budget of ${budget:,.2f}"
    streams.say(
        f"twoarm: {counted(trials, 'trial')} with {money}, into {visible(out)}; start? [y/N]"
    )
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _run_options(given: Given, options: Options) -> "RunOptions":
    from twoarm.run.setting import RunOptions

    for name in ("repeats", "jobs"):
        value = given.get(name)
        if value is not None and not 1 <= value <= _MOST:
            raise UsageError(f"--{name}: expected a number from 1 to {_MOST}, got {value}")
    for name in ("budget", "trial_budget"):
        value = given.get(name)
        # A budget of 0 would be taken for no budget at all.
        if value is not None and not 0 < value <= _MOST:
            raise UsageError(
                f"{written(name)}: expected dollars above 0 and at most {_MOST}, got {value:g}"
            )
    return taken(
        RunOptions,
        given,
        seed=options.seed,
        budget_usd=given.get("budget"),
        trial_usd=given.get("trial_budget"),
        only=tuple(given["only"].split(",")) if given.get("only") else (),
        tags=tuple(given.get("tag", ())),
    )


def _finish(session: "Session", given: Given, options: Options, streams: Streams) -> int:
    """Prepare, run, and report what ended by itself; what was stopped shows counts alone."""
    from twoarm.run.loop import StoppedError
    from twoarm.run.prepare import warnings_of

    finished = False
    stop_requests = StopRequests(session.folder)
    resumed = _resumed(given)
    try:
        streams.say(f"twoarm: run folder {visible(session.folder.path)}")
        try:
            prepared = session.prepare()
        except KeyboardInterrupt:
            streams.say(f"twoarm: stopped before the first trial; continue with {resumed}")
            raise
        for text in warnings_of(prepared.untouched):
            streams.say(f"twoarm: warning: {text}")
        end: End = "failed"
        try:
            with stop_requests, _display(given.get("display"), streams.say) as display:
                end = session.run(prepared, stop_requests.now, display.show)
        except StoppedError as error:
            streams.say(f"twoarm: {error}")
            way = error.way or f"nothing is lost; continue with {resumed}"
            streams.say(f"twoarm: {way}")
        if end in ("killed", "stopped"):
            streams.say(f"twoarm: stopped; continue with {resumed}")
            if not session.folder.begun():
                return _EARLY[end]
        made = session.report(prepared, end)
        for text in made.caveats:
            streams.say(f"twoarm: caveat: {text}")
        if end in ("killed", "stopped"):
            _say_counts(session, given["out"], streams)
        if end in _EARLY:
            return _EARLY[end]
        finished = end == "done"
    finally:
        session.close(finished=finished)
    if end == "budget":
        streams.say(
            "twoarm: the budget does not cover another trial; "
            f"raise it to continue: {resumed} --budget USD"
        )
    return _report(session, given, options, made.arms, streams)


def _resumed(given: Given) -> str:
    """The command that goes on with a run, and reports as this one would."""
    words = ["twoarm", "run", "--resume", given["out"]]
    # The seed is in the folder.
    for name in sorted(given.keys() & {*Options.__struct_fields__, "exit_code"} - {"seed"}):
        value = given[name]
        listed = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        words += [written(name)] if isinstance(value, bool) else [written(name), listed]
    return _typed(*words)


def _say_counts(session: "Session", out: str, streams: Streams) -> None:
    """Say how much is done and what it cost, and how to see more: not who is ahead."""
    from twoarm.run.display import counts_by_arm, money_so_far

    folder = session.folder
    runs = list(folder.runs())
    counts = counts_by_arm(session.setting.frozen, runs)
    money = money_so_far(runs, list(folder.attempts()), session.machine.budget_usd)
    streams.say(f"twoarm: {', '.join(filter(None, (counts, money)))}")
    streams.say(
        f"twoarm: {_typed('twoarm', 'score', out)} shows the results so far; that is a look, and "
        "to let it decide whether to go on makes false winners more likely"
    )


def _report(
    session: "Session", given: Given, options: Options, arms: frozenset[str], streams: Streams
) -> int:
    """Score the runs, and say where the results are."""
    from twoarm.score import open_folders

    if len(jobs := session.jobs_of_runs()) > 1:
        numbers = " and ".join(map(str, jobs))
        streams.say(
            f"twoarm: runs were made at {numbers} jobs; durations may differ for that alone"
        )
    frozen = session.setting.frozen
    for arm in (frozen.candidate, frozen.baseline):
        if arm not in arms:
            streams.say(f"twoarm: no run of arm {named(arm)} yet; there is nothing to score")
            return OF_VERDICT["not enough data"]
    options = replace(
        options, candidate=frozen.candidate, baseline=frozen.baseline, seed=frozen.seed
    )
    folders = open_folders([given["out"]])
    outputs, which = taken(Outputs, given), given.get("run_pages", "all")
    code = score_and_show(folders.files, options, outputs, streams, which, studies=folders.studies)
    _say_where(session, given["out"], streams)
    return code


def _say_where(session: "Session", out: str, streams: Streams) -> None:
    """Say where the results are, in the last lines."""
    page = session.folder.at("report.html")
    if os.path.exists(page):
        streams.say(f"twoarm: the report is {visible(page)}")
    done = {run.trial.id for run in session.folder.runs()}
    # A block of which both arms ran, if there is one.
    blocks = session.setting.frozen.blocks
    first = max(blocks, key=lambda block: sum(trial.id in done for trial in block))[0]
    shown = _typed("twoarm", "show", out, first.task, str(first.repeat))
    streams.say(f"twoarm: see one run with {shown}")


def _typed(*words: str) -> str:
    """A command as one would type it."""
    return visible(shlex.join(words))


def _display(name: str | None, say: Callable[[str], None]) -> "Display":
    from twoarm.run.display import Display, Live, LogLines

    if name == "quiet":
        return Display()
    if sys.stderr.isatty() and name != "lines":
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


def _stop(path: str, streams: Streams) -> int:
    from twoarm.run.ledger import RunFolder

    folder = RunFolder(path)
    folder.frozen()
    if not folder.held_by_another():
        streams.say(f"twoarm: nothing is running in {visible(path)}")
        return DONE
    folder.folder.write(STOP, b"")
    streams.say("twoarm: no new trials start; the run ends when the running ones have finished")
    return DONE


def _status(path: str, streams: Streams) -> int:
    """Say where a run stands, in counts and money, and change nothing."""
    from twoarm.run.display import money_so_far
    from twoarm.run.ledger import RunFolder

    folder = RunFolder(path)
    frozen = folder.frozen()
    machine = folder.machine()
    runs, attempts = list(folder.runs()), list(folder.attempts())
    at_work = folder.held_by_another()
    done = {run.trial.id for run in runs}
    running = sum(attempt.state == "running" for attempt in attempts) if at_work else 0
    infra = {attempt.trial.id for attempt in attempts if attempt.state == "infra"} - done
    money = money_so_far(runs, attempts, machine.budget_usd)
    counts = [
        f"{len(done)} of {counted(len(frozen.trials), 'trial')} done",
        f"{running} running",
        f"{len(infra)} infra",
    ]
    state = ", ".join([*counts, money] if money else counts)
    streams.write(f"{visible(folder.path)}: {'running' if at_work else 'not running'}\n{state}\n")
    return DONE
