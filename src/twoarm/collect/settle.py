"""From an attempt to a record: its outcome, counts and cost, in a form that scoring reads."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from twoarm.errors import Position
from twoarm.options import either
from twoarm.programs.folder import SourceError
from twoarm.programs.format import Attempt, Failed
from twoarm.programs.mini_swe_agent.swe_bench import TaskOutcomes
from twoarm.programs.moment import utc_text
from twoarm.programs.prices import Prices, cost_of
from twoarm.programs.tokens import Spend, summed
from twoarm.programs.uptake import Uses, tally, tally_failed
from twoarm.runs.record import PASSED_DESPITE_FAILURE, UPTAKE_NOT_SHOWN, Line, Run, explain
from twoarm.text.escape import named, visible

_ENCODER = msgspec.json.Encoder()


class Record(Run, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A run as it is written: optional keys only where there is something to say."""


class _Outcome(NamedTuple):
    """Whether the run counts as a success, and who failed if not."""

    success: bool
    failure: Failed | None
    caveats: tuple[str, ...]


class _Usage(NamedTuple):
    """The four counts, and the spends behind them."""

    counts: tuple[int | None, ...]
    spends: tuple[Spend, ...] | None
    caveats: tuple[str, ...]


class _Cost(NamedTuple):
    """What the run cost."""

    usd: float | None
    caveats: tuple[str, ...]


def settle(
    attempt: Attempt,
    arm: str,
    report: TaskOutcomes | None,
    prices: Mapping[str, Prices] | None,
    uses: Uses | None = None,
    run_path: str | None = None,
) -> Run:
    """The record of an attempt; raises SourceError if its success cannot be known."""
    outcome = _outcome(attempt, arm, report)
    usage = _usage(attempt)
    cost = _cost(attempt, usage, prices)
    caveats = {*attempt.caveats, *outcome.caveats, *usage.caveats, *cost.caveats}
    if uses is not None and uses.count is None:
        caveats.add(UPTAKE_NOT_SHOWN)
    failure = outcome.failure
    tools = None if attempt.calls is None else tally(attempt.calls.made)
    return Record(
        task_id=attempt.task_id,
        arm=arm,
        # One that the source does not number is numbered once all runs are known.
        repeat=1 if attempt.repeat is None else attempt.repeat,
        success=outcome.success,
        duration_seconds=attempt.duration_seconds,  # type: ignore[arg-type]
        total_cost_usd=cost.usd,
        input_tokens=usage.counts[0],
        output_tokens=usage.counts[1],
        cache_read_tokens=usage.counts[2],
        cache_write_tokens=usage.counts[3],
        step_count=attempt.step_count,
        tool_call_count=attempt.tool_call_count,
        tool_calls=tools,
        failed_tool_calls=tally_failed(attempt.calls, tools or {}) if attempt.calls else None,
        uptake_count=None if uses is None else uses.count,
        failed_uptake_count=None if uses is None else uses.failed,
        acceptance_cmd_count=attempt.acceptance_cmd_count,
        acceptance_first_pass=attempt.acceptance_first_pass,
        agent_exit_code=attempt.agent_exit_code,
        acceptance_exit_code=attempt.acceptance_exit_code,
        setup_exit_code=attempt.setup_exit_code,
        arm_setup_exit_code=attempt.arm_setup_exit_code,
        score=attempt.score,
        checks=None if attempt.checks is None else dict(attempt.checks),
        failure=None if failure is None else failure.failure,
        failure_reason=None if failure is None else failure.reason,
        run_id=attempt.run_id,
        model=attempt.model,
        agent=attempt.agent,
        session_id=attempt.session_id,
        started_at_utc=utc_text(attempt.started),
        ended_at_utc=utc_text(attempt.ended),
        acceptance_command=attempt.acceptance_command,
        run_path=run_path,
        tags=sorted(caveats) or None,
        task_tags=attempt.task_tags,
        family=attempt.family,
        grader=attempt.grader,
    )


def _report(arm: str) -> str:
    return either(flag=f"--report {arm}=FILE", argument=f'`reports={{"{arm}": FILE}}`')


def _outcome(attempt: Attempt, arm: str, report: TaskOutcomes | None) -> _Outcome:
    """A failure overrides success; where the source does not know, a report is consulted."""
    success, failure = attempt.success, attempt.failure
    if success is None:
        if report is None:
            raise SourceError(
                attempt.where,
                f"success is unknown; give {_report(arm)}, a SWE-bench report",
            )
        if attempt.task_id not in report:
            raise SourceError(
                attempt.where,
                f"task {named(attempt.task_id)} is not in the report of arm {named(arm)}",
            )
        outcome = report[attempt.task_id]
        success, failure = (False, outcome) if isinstance(outcome, Failed) else (outcome, failure)
    if failure is None:
        return _Outcome(success, None, ())
    contradicts = success and failure.failure == "agent"
    return _Outcome(False, failure, (PASSED_DESPITE_FAILURE,) if contradicts else ())


def _usage(attempt: Attempt) -> _Usage:
    """Zeros are believed only if the run called no model."""
    counts = None if attempt.spends is None else summed(attempt.spends).counts
    if counts is None or (attempt.took_steps and not any(counts)):
        unknown = ("usage_unknown",) if attempt.took_steps else ()
        return _Usage((None, None, None, None), None, unknown)
    return _Usage(counts, attempt.spends, ())


def _cost(attempt: Attempt, usage: _Usage, prices: Mapping[str, Prices] | None) -> _Cost:
    """The cost in the source; a zero for work means unknown, and prices fill in what is unknown."""
    cost = attempt.cost_usd
    free = cost == 0 and (attempt.took_steps or any(usage.counts))
    if cost is not None and not free:
        return _Cost(cost, ())
    unknown = ("cost_unknown",) if free else ()
    if prices is None or usage.spends is None:
        return _Cost(None, unknown)
    cost = cost_of(usage.spends, prices)
    return _Cost(cost, (*unknown, "no_price") if cost is None else ("cost_computed",))


def encoded(record: Run, where: Position) -> bytes:
    """The record as the spool takes it, with repeat 1; raises SourceError if scoring would not
    read it.
    """
    document = msgspec.to_builtins(record)
    try:
        msgspec.convert(document, Line)
    except ValueError as error:
        first = next(iter(explain(document, where)), None)
        if first is None:
            raise SourceError(where, visible(str(error))) from error
        raise SourceError(where, first.message, first.field) from error
    try:
        return _ENCODER.encode(msgspec.structs.replace(record, repeat=1))
    except ValueError as error:
        raise SourceError(where, f"text that no file can hold: {visible(str(error))}") from error
