"""The `run` command: its options, and what it does with them."""

import os
import re
import shlex
import signal
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

import msgspec

from twoarm.commands.console import Streams
from twoarm.commands.exit_codes import BAD, DONE, HELP, INTERRUPTED, OF_VERDICT
from twoarm.commands.score import given_options, options_of, refuse_outputs, score_and_show
from twoarm.commands.score_options import add_report_options, add_runs_option
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
_REPEATS = 5
# In the run folder: no new trials, please.
STOP = "stop"
# Of repeats, jobs and dollars.
_MOST = 1_000_000

_MODES = ("resume", "status", "stop", "demo", "dry_run")
# What the schedule and the folder have settled, and `--out` with them.
_SETTLED = ("repeats", "seed", "trial_budget", "only", "tag", "isolation", "keep", "out")
# What a dry run looks at; it runs no agent, and has nothing to report.
_OF_A_DRY_RUN = (
    "suite",
    "repeats",
    "seed",
    "jobs",
    "budget",
    "trial_budget",
    "only",
    "tag",
    "isolation",
)

DESCRIPTION = (
    "Run a suite: an agent on every task in two arms, in clean workspaces and in an order that\n"
    "keeps drift out of the comparison, within a budget; then score the runs."
)


EPILOG = HELP


def add_options(parser: ArgumentParser) -> None:
    """The arguments of `twoarm run`, with those of every report."""
    parser.add_argument("suite", nargs="?", metavar="SUITE", help="a suite, TOML or JSON")
    parser.add_argument("--resume", metavar="DIR", help="continue a run")
    parser.add_argument("--status", metavar="DIR", help="show how far a run is")
    parser.add_argument(
        "--stop",
        metavar="DIR",
        help="start no new trials; report when the running ones have finished",
    )
    parser.add_argument(
        "--demo", action="store_true", help="run a bundled suite with a bundled scripted agent"
    )
    parser.add_argument(
        "--repeats", type=int, metavar="N", help="runs of every task in each arm (default: 5)"
    )
    parser.add_argument("--jobs", type=int, metavar="N", help="trials at a time")
    parser.add_argument("--budget", type=float, metavar="USD", help="for all trials together")
    parser.add_argument("--trial-budget", type=float, metavar="USD", help="for one trial")
    parser.add_argument("--only", metavar="ID,...", help="only these tasks")
    parser.add_argument("--tag", action="append", default=[], help="only tasks with this tag")
    parser.add_argument(
        "--isolation",
        choices=("copy", "bwrap"),
        help="a private copy of the workspace, or also no writing outside it (default: copy)",
    )
    parser.add_argument(
        "--keep",
        choices=("none", "failed", "all"),
        help="which workspaces to keep in the run folder (default: none)",
    )
    parser.add_argument(
        "--display",
        choices=("live", "lines", "quiet"),
        help="how to show progress (default: live on a terminal, otherwise lines)",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="check, build and try everything but the agent, and say what to expect",
    )
    parser.add_argument("--yes", action="store_true", help="start without asking")
    add_report_options(parser, out="the run folder (default: named after suite and time)")
    add_runs_option(parser, "all")


def run(given: Namespace, streams: Streams) -> int:
    """Run, resume, rehearse, or say where a run stands."""
    from twoarm.run.ledger import unwritable
    from twoarm.run.session import refuse_other_systems
    from twoarm.run.suite_file import SuiteError

    refuse_other_systems()
    _refuse_without_effect(given)
    try:
        if given.status is not None:
            return _status(given.status, streams)
        if given.stop is not None:
            return _stop(given.stop, streams)
        if given.resume is not None:
            return _resume(given, streams)
        return _start(given, streams)
    except SuiteError as error:
        streams.say(str(error))
        streams.say(f"twoarm: {counted(len(error.problems), 'problem')}; nothing was run")
        return BAD
    except OSError as error:
        where = error.filename or given.out or given.resume or "the run folder"
        raise unwritable(str(where), error) from error


def _refuse_without_effect(given: Namespace) -> None:
    """Refuse an option that would do nothing, before anything is done."""
    said = given_options(given)
    modes = [said[name] for name in _MODES if name in said]
    if len(modes) > 1:
        raise UsageError(f"{' and '.join(modes)} cannot be combined")
    if given.demo and given.suite is not None:
        raise UsageError("--demo brings its own suite")
    for name, option in said.items():
        option = "SUITE" if name == "suite" else option
        if given.resume is not None and name in _SETTLED:
            raise UsageError(f"{option} cannot change once a run has started; leave it out")
        if given.dry_run and name not in (*_OF_A_DRY_RUN, "dry_run"):
            raise UsageError(f"{option} has no effect with --dry-run")
        for mode in ("status", "stop"):
            if getattr(given, mode) is not None and name != mode:
                raise UsageError(f"{option} has no effect with --{mode}")


def _resume(given: Namespace, streams: Streams) -> int:
    from twoarm.run.ledger import RunFolder
    from twoarm.run.session import resume

    given.out = given.resume
    options = _options(given)
    folder = RunFolder(given.resume)
    before = folder.machine()
    refuse_outputs(given, [given.suite or before.suite])
    session = resume(given.resume, given.suite, _run_options(given, options), os.environ)
    if session.machine.jobs != before.jobs:
        streams.say(
            f"twoarm: {counted(session.machine.jobs, 'job')} now, {before.jobs} before: "
            "durations may differ for that alone"
        )
    return _finish(session, options, given, streams)


def _start(given: Namespace, streams: Streams) -> int:
    from twoarm.run.session import start
    from twoarm.run.setting import notes, set_up

    if given.demo:
        _demo(given)
    if given.suite is None:
        raise UsageError("which suite? write twoarm run SUITE, or try twoarm run --demo")
    options = _options(given)
    run_options = _run_options(given, options)
    setting = set_up(given.suite, run_options, os.environ)
    if given.dry_run:
        from twoarm.run.rehearse import outlook, rehearse

        lines = outlook(setting, rehearse(setting), _without_dry_run(given))
        streams.write("".join(f"{line}\n" for line in lines))
        return DONE
    for text in notes(setting):
        streams.say(f"twoarm: {text}")
    if given.out is None:
        stamp = time.strftime("%Y%m%d-%H%M%S")
        # A name in this folder, whatever the suite is called.
        plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", setting.frozen.suite_id).lstrip(".-")[:100]
        given.out = f"{plain or 'run'}-{stamp}"
    refuse_outputs(given, [given.suite])
    if not _agreed(given, len(setting.frozen.trials), setting.terms.budget_usd, streams):
        streams.say("twoarm: nothing was started")
        return INTERRUPTED
    session = start(given.suite, given.out, run_options, setting)
    return _finish(session, options, given, streams)


def _without_dry_run(given: Namespace) -> str:
    """The command that starts what was tried."""
    words = ["twoarm", "run", given.suite]
    for name, option in given_options(given).items():
        if name in _OF_A_DRY_RUN and name != "suite":
            value = getattr(given, name)
            for one in value if isinstance(value, list) else [value]:
                words += [option, str(one)]
    return visible(shlex.join(words))


def _demo(given: Namespace) -> None:
    """The bundled suite, into a folder of its own."""
    from importlib.resources import files

    given.suite = str(files("twoarm").joinpath("run", "demo", "suite.toml"))
    given.yes = True
    given.jobs = given.jobs or _DEMO_JOBS
    given.out = given.out or os.path.join(tempfile.mkdtemp(prefix="twoarm-demo-"), "run")


def _options(given: Namespace) -> Options:
    """The options of the report; the seed is that of the order, too, and analysis.md is written."""
    return options_of(given, used=("seed", "interval", "margin_success", "margin_ratio"))


def _agreed(given: Namespace, trials: int, budget: float | None, streams: Streams) -> bool:
    """Ask once before money is spent, if there is somebody to ask."""
    if given.yes or not sys.stderr.isatty() or not sys.stdin.isatty():
        return True
    money = "no budget" if budget is None else f"a budget of ${budget:,.2f}"
    streams.say(
        f"twoarm: {counted(trials, 'trial')} with {money}, into {visible(given.out)}; start? [y/N]"
    )
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _run_options(given: Namespace, options: Options) -> "RunOptions":
    from twoarm.run.setting import RunOptions

    for name in ("repeats", "jobs"):
        value = getattr(given, name)
        if value is not None and not 1 <= value <= _MOST:
            raise UsageError(f"--{name}: expected a number from 1 to {_MOST}, got {value}")
    for name in ("budget", "trial_budget"):
        value = getattr(given, name)
        # Nothing is no budget, and would be taken for none.
        if value is not None and not 0 < value <= _MOST:
            raise UsageError(
                f"--{name.replace('_', '-')}: expected dollars above 0 and at most {_MOST}, "
                f"got {value:g}"
            )
    return RunOptions(
        repeats=given.repeats or _REPEATS,
        seed=options.seed,
        jobs=given.jobs,
        budget_usd=given.budget,
        trial_usd=given.trial_budget,
        only=tuple(given.only.split(",")) if given.only else (),
        tags=tuple(given.tag),
        isolation=given.isolation or "copy",
        keep=given.keep or "none",
    )


def _finish(session: "Session", options: Options, given: Namespace, streams: Streams) -> int:
    """Prepare, run, report."""
    from twoarm.run.loop import StoppedError
    from twoarm.run.prepare import warnings_of

    finished = False
    stop_requests = StopRequests(session.folder)
    resumed = f"twoarm run --resume {visible(given.out)}"
    try:
        streams.say(f"twoarm: run folder {visible(session.folder.path)}")
        prepared = session.prepare()
        for text in warnings_of(prepared.untouched):
            streams.say(f"twoarm: warning: {text}")
        end: End = "failed"
        try:
            with stop_requests, _display(given.display, streams.say) as display:
                end = session.run(prepared, stop_requests.now, display.show)
        except StoppedError as error:
            streams.say(f"twoarm: {error}")
            way = error.way or f"nothing is lost; continue with {resumed}"
            streams.say(f"twoarm: {way}")
        if end == "killed":
            streams.say(f"twoarm: stopped; continue with {resumed}")
            if not session.folder.begun():
                return INTERRUPTED
        made = session.report(prepared, end)
        for text in made.caveats:
            streams.say(f"twoarm: caveat: {text}")
        if end in ("killed", "failed"):
            return INTERRUPTED if end == "killed" else BAD
        finished = end == "done"
    finally:
        session.close(finished=finished)
    if end == "budget":
        streams.say(
            "twoarm: the budget does not cover another trial; "
            f"raise it to continue: {resumed} --budget USD"
        )
    elif not finished:
        streams.say(f"twoarm: stopped; continue with {resumed}")
    if len(jobs := session.jobs_of_runs()) > 1:
        numbers = " and ".join(map(str, jobs))
        streams.say(
            f"twoarm: runs were made at {numbers} jobs; durations may differ for that alone"
        )
    frozen = session.setting.frozen
    for arm in (frozen.candidate, frozen.baseline):
        if arm not in made.arms:
            streams.say(f"twoarm: no run of arm {named(arm)} yet; there is nothing to score")
            return OF_VERDICT["not enough data"]
    options = msgspec.structs.replace(
        options, candidate=frozen.candidate, baseline=frozen.baseline, seed=frozen.seed
    )
    collected = session.folder.at("collected.jsonl")
    code = score_and_show([collected], options, given, streams, given.runs or "all")
    _say_where(session, given.out, streams)
    return code


def _say_where(session: "Session", out: str, streams: Streams) -> None:
    """Where the results are, as the last lines."""
    page = session.folder.at("report.html")
    if os.path.exists(page):
        streams.say(f"twoarm: the report is {visible(page)}")
    done = {run.trial.id for run in session.folder.runs()}
    # Both arms of it ran, where any did.
    blocks = session.setting.frozen.blocks
    first = max(blocks, key=lambda block: sum(trial.id in done for trial in block))[0]
    words = ["twoarm", "show", out, first.task, str(first.repeat)]
    streams.say(f"twoarm: see one run with {visible(shlex.join(words))}")


def _display(name: str | None, say: Callable[[str], None]) -> "Display":
    from twoarm.run.display import Live, LogLines, Quiet

    if name == "quiet":
        return Quiet()
    if sys.stderr.isatty() and name != "lines":
        return Live(sys.stderr)
    return LogLines(say)


class StopRequests:
    """What the user wants by now: Ctrl-C once to finish, twice to end at once; or a stop file."""

    def __init__(self, folder: "RunFolder") -> None:
        self._folder = folder.folder
        # Of an earlier runner; one that comes from now on is heeded.
        self._folder.remove(STOP)
        self._asked = 0
        self._before: list[tuple[int, object]] = []

    def __enter__(self) -> "StopRequests":
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # Under `nohup`, or in the background of a script, whoever ignores one wants it ignored.
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
        return "finish" if self._asked or self._folder.look(STOP) is not None else "go"


def _stop(path: str, streams: Streams) -> int:
    from twoarm.run.ledger import RunFolder

    folder = RunFolder(path)
    folder.frozen()
    if not folder.held_by_another():
        streams.say(f"twoarm: nothing is running in {visible(path)}")
        return DONE
    folder.folder.write(STOP, b"")
    streams.say(
        "twoarm: no new trials start; when the running ones have finished, it reports and ends"
    )
    return DONE


def _status(path: str, streams: Streams) -> int:
    """Where a run stands: counts and money, and no effect."""
    from twoarm.run.display import money_of
    from twoarm.run.ledger import RunFolder

    folder = RunFolder(path)
    frozen = folder.frozen()
    machine = folder.machine()
    runs, attempts = list(folder.runs()), list(folder.attempts())
    at_work = folder.held_by_another()
    done = {run.trial.id for run in runs}
    running = sum(one.state == "running" for one in attempts) if at_work else 0
    infra = {one.trial.id for one in attempts if one.state == "infra"} - done
    ended = [*runs, *(one for one in attempts if one.state != "running")]
    money = money_of(
        sum(one.charged_usd or 0.0 for one in ended),
        sum(one.charged_usd is None for one in ended),
        machine.budget_usd,
        ended=bool(ended),
    )
    counts = [
        f"{len(done)} of {counted(len(frozen.trials), 'trial')} done",
        f"{running} running",
        f"{len(infra)} infra",
    ]
    said = ", ".join([*counts, money] if money else counts)
    streams.write(f"{visible(folder.path)}: {'running' if at_work else 'not running'}\n{said}\n")
    return DONE
