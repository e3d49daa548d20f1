"""What a trial of Harbor did, from the trajectory of its agent."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from twoarm.programs.event import Event, asked_of, document, moment, rest, text_of
from twoarm.programs.folder import Folder
from twoarm.programs.harbor import record
from twoarm.programs.harbor.trial_folder import RESULT, trajectory_of
from twoarm.programs.tokens import Count, Spend


class _Call(record.HarborCall, frozen=True, kw_only=True, gc=False):
    tool_call_id: str | None = None


class _Result(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    source_call_id: str | None = None
    content: Any = None


class _Observation(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    results: Sequence[_Result] = ()


class _Metrics(record.HarborMetrics, frozen=True, kw_only=True, gc=False):
    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    cached_tokens: Count | None = None


class _Step(record.HarborStep, frozen=True, kw_only=True, gc=False):
    timestamp: Any = None
    source: str | None = None
    message: Any = None
    reasoning_content: Any = None
    tool_calls: Sequence[_Call] | None = None
    observation: _Observation | None = None
    metrics: _Metrics | None = None


class _Trajectory(record.HarborTrajectory, frozen=True, kw_only=True, gc=False):
    steps: Sequence[_Step] = ()


_TRAJECTORY = msgspec.json.Decoder(_Trajectory)


def events(folder: Folder, name: str, run_id: str | None) -> Iterator[Event]:
    """The steps of the trajectory, and what the trial counts beside them."""
    if name != RESULT:
        yield Event(kind="note", text="the trial left no result")
        return
    trial, where = folder.decode(RESULT, record.TRIAL), folder.where(RESULT)
    trajectory, kept = None, trajectory_of(folder)
    if folder.holds(kept):
        trajectory = document(folder, kept, _TRAJECTORY)
    else:
        yield Event(kind="note", text="the agent left no trajectory")
    spends = []
    for step in () if trajectory is None else trajectory.steps:
        yield from _shown(step)
        if (spend := _spend(step, trial, folder)) is not None:
            spends.append(spend)
            yield Event(kind="spend", spend=spend)
    counted = record.spend_of(trial.results, trajectory, trial.agent_info, None, where, [])
    if counted is not None:
        yield from rest([counted], spends, "by the result of the trial")


def _shown(step: _Step) -> Iterator[Event]:
    at, text = moment(step.timestamp), text_of(step.message)
    if step.source == "user":
        yield Event(kind="prompt", text=text, at=at)
        return
    yield Event(kind="thinking", text=text_of(step.reasoning_content), at=at)
    yield Event(kind="message", text=text, at=at)
    for call in step.tool_calls or ():
        asked = asked_of(call.arguments)
        yield Event(kind="call", id=call.tool_call_id, tool=call.function_name, text=asked, at=at)
    for result in step.observation.results if step.observation is not None else ():
        yield Event(kind="result", id=result.source_call_id, text=text_of(result.content))


def _spend(step: _Step, trial: record.HarborTrial, folder: Folder) -> Spend | None:
    """What a step spent, by the rules for a whole trial."""
    if step.metrics is None:
        return None
    result = record.HarborResult(
        n_input_tokens=step.metrics.prompt_tokens,
        n_output_tokens=step.metrics.completion_tokens,
        n_cache_tokens=step.metrics.cached_tokens,
    )
    alone = record.HarborTrajectory(steps=[step])
    where = folder.where(trajectory_of(folder))
    return record.spend_of([result], alone, trial.agent_info, None, where, [])
