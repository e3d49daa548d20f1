"""The `run` command: its options, and what it does with them."""

import os
import re
import sys
import tempfile
import time
from argparse import ArgumentParser, _ArgumentGroup
from typing import TYPE_CHECKING

from twoarm.commands.console import Streams
from twoarm.commands.exit_codes import BAD, DONE, INTERRUPTED, RUN_HELP
from twoarm.commands.given import OF_A_DRY_RUN, Given, listed, refuse_verdict, taken, typed, written
from twoarm.commands.outputs import Outputs, refuse_score_outputs
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
from twoarm.text.escape import counted, visible

if TYPE_CHECKING:
    from twoarm.run.setting import RunOptions

# The scripted agent of the demo sleeps most of the time.
_DEMO_JOBS = 4
# The most repeats, jobs and dollars.
_MOST = 1_000_000


DESCRIPTION = (
    "Run a suite: an agent on every task in two arms or more, in clean workspaces and in an order "
    "that keeps drift out of the comparison, within a budget; then score the runs."
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
        "--shard",
        metavar="I/N",
        help="only this share of the trials, such as 2/5, for several machines; twoarm merge puts "
        "the shards together",
    )
    group.add_argument(
        "--isolation",
        choices=("copy", "bwrap", "podman", "docker"),
        help="what holds an agent back: nothing, a sandbox, a container (default: a "
        "container if the suite names an image, else bwrap if it works here and the agent is not "
        "`command`, else copy)",
    )
    group.add_argument(
        "--executor",
        metavar="WHERE",
        help="where trials run: local (default), ray or ray:HOST:PORT for the nodes of a cluster",
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
            from twoarm.commands.run_status import status

            return status(given["status"], streams)
        if "stop" in given:
            from twoarm.commands.run_status import stop

            return stop(given["stop"], streams)
        if "resume" in given:
            return _resume(given["resume"], given, streams)
        if "demo" in given:
            return _demo(given, streams)
        if "suite" not in given:
            raise UsageError(
                "which suite? write twoarm run SUITE; twoarm init DIR writes a first one, and "
                "twoarm run --demo brings its own"
            )
        return _start(given, streams)
    except SuiteError as error:
        streams.say(str(error))
        streams.say(f"twoarm: {counted(len(error.problems), 'problem')}; nothing was run")
        return BAD
    except OSError as error:
        where = error.filename or given.get("out") or given.get("resume") or "the run folder"
        raise unwritable(str(where), error) from error


def _resume(out: str, given: Given, streams: Streams) -> int:
    from twoarm.commands.run_looks import refuse_changed, with_looks
    from twoarm.commands.run_to_end import finish, refuse_exit_code
    from twoarm.run.ledger import RunFolder
    from twoarm.run.reopen import reopen
    from twoarm.run.session import resume

    outputs = taken(Outputs, given, out=out)
    folder = RunFolder(out)
    # First what makes a folder a run folder, as everywhere.
    frozen, before = folder.frozen(), folder.machine()
    if before.shard is not None:
        refuse_verdict(given)
    refuse_exit_code(given, frozen.candidates)
    refuse_changed(frozen, given)
    options = with_looks(_options(given), frozen, given)
    suite = given.get("suite")
    refuse_score_outputs(outputs, [suite or before.suite])
    reopened = reopen(out, suite, _run_options(given, options), os.environ)
    if reopened.more:
        streams.say(f"twoarm: {reopened.growth}")
        budget = reopened.setting.terms.budget_usd
        isolation = reopened.setting.isolation.name
        if "yes" not in given and not _agreed(reopened.more, budget, isolation, out, streams):
            streams.say("twoarm: nothing was started")
            return INTERRUPTED
    _clear_dry_runs(streams)
    session = resume(reopened)
    if session.machine.jobs != before.jobs:
        streams.say(
            f"twoarm: {counted(session.machine.jobs, 'job')} now, {before.jobs} before: "
            "durations may differ for that alone"
        )
    return finish(session, {**given, "out": out}, options, streams)


def _start(given: Given, streams: Streams) -> int:
    from twoarm.commands.run_looks import refuse_in_vain, with_looks
    from twoarm.commands.run_to_end import finish, refuse_exit_code
    from twoarm.run.session import own_share, start
    from twoarm.run.setting import notes, set_up

    suite: str = given["suite"]
    options = _options(given)
    run_options = _run_options(given, options)
    setting = set_up(suite, run_options, os.environ)
    refuse_exit_code(given, setting.frozen.candidates)
    options = with_looks(options, setting.frozen, given)
    refuse_in_vain(setting.frozen, options)
    _clear_dry_runs(streams)
    if "dry_run" in given:
        from twoarm.run.rehearse import outlook, rehearse

        rehearsed = rehearse(setting)
        lines = outlook(own_share(rehearsed.setting), rehearsed, _without_dry_run(given))
        streams.write("".join(f"{line}\n" for line in lines))
        return DONE
    for text in notes(setting):
        streams.say(f"twoarm: warning: {text}")
    out: str = given.get("out") or _folder_name(setting.frozen.suite_id)
    refuse_score_outputs(taken(Outputs, given, out=out), [suite])
    trials, budget = len(own_share(setting).frozen.trials), setting.terms.budget_usd
    isolation = setting.isolation.name
    if "yes" not in given and not _agreed(trials, budget, isolation, out, streams):
        streams.say("twoarm: nothing was started")
        return INTERRUPTED
    session = start(suite, out, run_options, setting)
    return finish(session, {**given, "out": out}, options, streams)


def _options(given: Given) -> Options:
    """How the runs are judged; here `--tag` says which of them are made."""
    return taken(Options, given, tag=None)


def _clear_dry_runs(streams: Streams) -> None:
    from twoarm.run.abandoned import clear_dry_runs

    for text in clear_dry_runs(os.environ):
        streams.say(f"twoarm: {text}")


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
                words += [written(name), listed(each)]
    return typed(*words)


def _demo(given: Given, streams: Streams) -> int:
    """Run a copy of the bundled suite, and leave it beside the run folder."""
    from twoarm.files.write import write_new_folder
    from twoarm.run.first_suite import SUITE, demo_suite

    # Before anything is written.
    _run_options(given, _options(given))
    if "out" in given:
        out = os.path.normpath(given["out"])
        beside = f"{out}-suite"
    else:
        made = tempfile.mkdtemp(prefix="twoarm-demo-")
        out, beside = os.path.join(made, "run"), os.path.join(made, "suite")
    write_new_folder(beside, demo_suite())
    suite = os.path.join(beside, SUITE)
    code = _start({"jobs": _DEMO_JOBS, **given, "suite": suite, "out": out, "yes": True}, streams)
    streams.say(
        f"twoarm: the suite is {visible(suite)}; change it as you like, and run it with "
        f"{typed('twoarm', 'run', suite)}"
    )
    return code


def _agreed(trials: int, budget: float | None, isolation: str, out: str, streams: Streams) -> bool:
    """Ask once before money is spent, if there is somebody to ask."""
    if not sys.stderr.isatty() or not sys.stdin.isatty():
        return True
    money = "no budget" if budget is None else f"a budget of ${budget:,.2f}"
    streams.say(
        f"twoarm: {counted(trials, 'trial')} with {money}, isolation {isolation}, into "
        f"{visible(out)}; start? [y/N]"
    )
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _run_options(given: Given, options: Options) -> "RunOptions":
    from twoarm.commands.run_looks import judging, repeats_of
    from twoarm.run.executor import cluster_address
    from twoarm.run.setting import RunOptions
    from twoarm.run.shard import shard_of

    if (repeats := repeats_of(given)) is not None:
        given = {**given, "repeats": repeats}
    for name in ("repeats", "jobs"):
        value = given.get(name)
        if value is not None and not 1 <= value <= _MOST:
            asked = "looks" if name == "repeats" and "looks" in given else name
            raise UsageError(f"--{asked}: expected a number from 1 to {_MOST}, got {value}")
    if "executor" in given:
        cluster_address(given["executor"])
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
        judging=judging(given),
        shard=shard_of(given["shard"]) if "shard" in given else None,
    )
