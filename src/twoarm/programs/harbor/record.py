"""Harbor: job folders, one trial folder per run."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, ClassVar

import msgspec

from twoarm.errors import Position, Problem
from twoarm.options import option
from twoarm.programs.failure import agent, infra
from twoarm.programs.folder import Folder
from twoarm.programs.format import Attempt, Failed, Format, Settings
from twoarm.programs.harbor.trial_folder import (
    CONFIG,
    RESULT,
    planned,
    stopped,
    trajectory_of,
    without_result,
)
from twoarm.programs.moment import between, seconds
from twoarm.programs.scores import as_checks, as_score
from twoarm.programs.sidecar import NAME, Sidecar, read_sidecar
from twoarm.programs.tokens import Count, Quantity, Spend, model_name, outside_cache
from twoarm.programs.uptake import Call, Calls, Kind, takes_command
from twoarm.programs.version import opencode_output_includes_reasoning
from twoarm.text.escape import named

# A reward below this is a failed run, unless the user chose another threshold.
FULL_REWARD = 1.0

# Exceptions that are the agent's own failure; Harbor counts the reward of such a trial.
AGENT_EXCEPTIONS = frozenset(
    {
        "AgentTimeoutError",
        "ContextWindowExceededError",
        "ContextLengthExceededError",
        "OutputTokenExceededError",
        "OutputLengthExceededError",
        "AgentSafetyRefusalError",
        "ContentPolicyViolationError",
    }
)


class _Phase(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    started_at: datetime | None = None
    finished_at: datetime | None = None


class HarborResult(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the agent spent in all; input includes what was cached."""

    n_input_tokens: Count | None = None
    n_cache_tokens: Count | None = None
    n_output_tokens: Count | None = None
    cost_usd: Quantity | None = None


class _Verified(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    rewards: dict[str, float | None] | None = None


class _Raised(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    exception_type: str


class _Step(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    agent_result: HarborResult | None = None
    verifier_result: _Verified | None = None
    exception_info: _Raised | None = None
    agent_execution: _Phase | None = None
    verifier: _Phase | None = None


class _Model(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    name: str | None = None
    provider: str | None = None


class _AgentInfo(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    name: str | None = None
    version: str | None = None
    model_info: _Model | None = None


class _Config(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    agent: msgspec.Raw = msgspec.Raw(b"null")
    extra_instruction_paths: msgspec.Raw = msgspec.Raw(b"null")
    extra_instructions: msgspec.Raw = msgspec.Raw(b"null")


class HarborTrial(_Step, frozen=True, kw_only=True, gc=False):
    """The result of a trial."""

    id: str
    task_name: str
    trial_name: str
    agent_info: _AgentInfo
    config: _Config
    source: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    step_results: list[_Step] | None = None

    @property
    def steps(self) -> Sequence[_Step]:
        """The steps of a trial that has several, or the trial itself."""
        return self.step_results or (self,)

    @property
    def results(self) -> list[HarborResult]:
        """What the agent told, step by step."""
        return [step.agent_result for step in self.steps if step.agent_result is not None]


class HarborMetrics(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a step spent."""

    extra: dict[str, Any] | None = None


class HarborCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A call of a tool."""

    function_name: str = ""
    arguments: msgspec.Raw = msgspec.Raw(b"null")


class HarborStep(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A step of a trajectory."""

    tool_calls: Sequence[HarborCall] | None = None
    metrics: HarborMetrics | None = None


class _FinalMetrics(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    total_steps: Count | None = None


class HarborTrajectory(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What an agent did."""

    session_id: str | None = None
    steps: Sequence[HarborStep] = ()
    final_metrics: _FinalMetrics | None = None

    @property
    def step_count(self) -> int | None:
        """As the agent counts them."""
        return None if self.final_metrics is None else self.final_metrics.total_steps

    @property
    def tool_call_count(self) -> int:
        """The calls of all steps."""
        return sum(len(step.tool_calls or ()) for step in self.steps)


TRIAL = msgspec.json.Decoder(HarborTrial)
_TRAJECTORY = msgspec.json.Decoder(HarborTrajectory)


class Harbor:
    """Trials of Harbor jobs. A job's own `result.json` is never read for figures."""

    name: ClassVar[str] = "harbor"
    one_run_per_folder: ClassVar[bool] = True

    def recognizes(self, folder: Folder) -> bool:
        """A result of a trial, or of a job."""
        if RESULT not in folder or CONFIG not in folder:
            return False
        text = folder.read(RESULT)
        return b'"trial_name"' in text or b'"n_total_trials"' in text

    def claims(self, folder: Folder) -> Sequence[str]:
        """The result of a trial; a trial folder without one was not finished."""
        if RESULT in folder:
            text = folder.read(RESULT)
            return () if b'"n_total_trials"' in text and b'"trial_name"' not in text else (RESULT,)
        if NAME in folder:
            return (NAME,)
        if CONFIG in folder and b'"trial_name":' in folder.head(CONFIG):
            return (CONFIG,)
        return ()

    def read(self, folder: Folder, name: str, settings: Settings) -> Iterator[Attempt | Problem]:
        """One trial."""
        sidecar = read_sidecar(folder, name) if NAME in folder else None
        if name != RESULT:
            yield without_result(folder, sidecar, settings)
            return
        trial = folder.decode(RESULT, TRIAL)
        document = folder.read(RESULT)
        where = folder.where(RESULT)
        trajectory = folder.decode_if_there(trajectory_of(folder), _TRAJECTORY)
        steps, results = trial.steps, trial.results
        failure = _failure(trial, steps, sidecar)
        try:
            reward, others = _rewards(trial, steps, settings.scorer)
        except _UnchosenError as unchosen:
            if not settings.scheduled:
                why = f"rewards {unchosen}; choose one with {option('scorer')}"
                raise folder.refuse(why, RESULT) from None
            reward, others = None, {}
            if failure is None or failure.failure == "agent":
                failure = _undecided(unchosen)
        threshold = FULL_REWARD if settings.threshold is None else settings.threshold
        passed = reward is not None and reward >= threshold
        if failure is None and reward is None:
            failure = infra("no reward: the verifier did not run")
        caveats = [] if reward is None else list(_caveats(reward, passed=passed))
        # An exception that is not the agent's makes every reward invalid.
        valid = failure is None or failure.failure == "agent"
        duration = _duration(trial, steps, caveats)
        if duration is None:
            raise folder.refuse("no times of the agent or of the trial in it", RESULT)
        info, model = trial.agent_info, _model(trial)
        spend = spend_of(results, trajectory, info, model, where, caveats)
        attempt = Attempt(
            where=where,
            task_id=trial.task_name,
            repeat=None,
            success=passed,
            failure=failure,
            duration_seconds=duration,
            started=seconds(trial.started_at),
            ended=seconds(trial.finished_at),
            cost_usd=_cost(results),
            spends=None if spend is None else (spend,),
            took_steps=bool(results),
            document=document,
            configuration=_configuration(trial),
            scope="",
            caveats=tuple(caveats),
            step_count=None if trajectory is None else trajectory.step_count,
            tool_call_count=None if trajectory is None else trajectory.tool_call_count,
            calls=None if trajectory is None else _calls(trajectory, info.name),
            score=as_score(reward) if valid else None,
            checks=as_checks(others) if valid else None,
            run_id=trial.id,
            model=model,
            agent=info.name,
            session_id=None if trajectory is None else trajectory.session_id,
        )
        yield attempt if sidecar is None else planned(attempt, sidecar)


record: type[Format] = Harbor


def _caveats(reward: float, *, passed: bool) -> Iterator[str]:
    if not passed and reward > 0:
        yield "partial_reward"
    if as_score(reward) is None:
        yield "reward_off_scale"


def _model(trial: HarborTrial) -> str | None:
    info = trial.agent_info.model_info
    return model_name(info.provider, info.name) if info is not None and info.name else None


def _duration(trial: HarborTrial, steps: Sequence[_Step], caveats: list[str]) -> float | None:
    duration = _agent_time(steps)
    if duration is None:
        duration = between(seconds(trial.started_at), seconds(trial.finished_at))
        caveats.append("duration_whole_trial")
    return duration


def _configuration(trial: HarborTrial) -> tuple[tuple[str, Any], ...]:
    return (
        ("config.agent", bytes(trial.config.agent)),
        ("source", trial.source),
        ("config.extra_instruction_paths", bytes(trial.config.extra_instruction_paths)),
        ("config.extra_instructions", bytes(trial.config.extra_instructions)),
        ("agent_info.version", trial.agent_info.version),
    )


# Agents whose trajectories hold their commands, and those that have a tool for skills.
_WITH_COMMANDS = frozenset(
    {"claude-code", "opencode", "codex", "gemini-cli", "mini-swe-agent", "terminus-2"}
)
_WITH_SKILLS = frozenset({"claude-code", "opencode", "gemini-cli"})


def _calls(trajectory: HarborTrajectory, agent_name: str | None) -> Calls:
    """The calls of a trajectory, under the names that the agent gave its tools."""
    made = tuple(
        Call(name=call.function_name, asked=call.arguments)
        for step in trajectory.steps
        for call in step.tool_calls or ()
    )
    shows: list[Kind] = ["tool"]
    if agent_name in _WITH_COMMANDS or any(takes_command(call.name) for call in made):
        shows.append("command")
    if agent_name in _WITH_SKILLS:
        shows.append("skill")
    return Calls(made=made, shows=tuple(shows), tells_failures=False)


def _failure(trial: HarborTrial, steps: Sequence[_Step], sidecar: Sidecar | None) -> Failed | None:
    """Whatever is not known to be the agent's own makes the reward invalid: infra."""
    raised = [step.exception_info for step in (trial, *steps) if step.exception_info is not None]
    if not raised:
        return None
    failure = agent(raised[0].exception_type)
    for exception in reversed(raised):
        if exception.exception_type not in AGENT_EXCEPTIONS:
            failure = infra(exception.exception_type)
    if sidecar is None:
        return failure
    begun = [step for step in steps if step.agent_execution is not None]
    verifying = bool(begun) and begun[-1].verifier is not None
    return stopped(failure, sidecar, begun=bool(begun), verifying=verifying)


_Rewards = tuple[float | None, dict[str, float | None]]


class _UnchosenError(Exception):
    """Several rewards, and none of them is the one that decides; in words, those that there are."""


def _undecided(unchosen: _UnchosenError) -> Failed:
    """Nobody knows whether the task was solved."""
    return infra(
        "nobody knows which reward decides; write scorer in [agent] of the suite, one "
        f"of {unchosen}"
    )


def _rewards(trial: HarborTrial, steps: Sequence[_Step], scorer: str | None) -> _Rewards:
    """The reward of the trial, and the others by name.

    Of a trial in steps that has none of its own, each is the least of its steps.
    """
    verified = [trial.verifier_result] if trial.verifier_result else []
    if not verified:
        verified = [step.verifier_result for step in steps if step.verifier_result is not None]
        if len(verified) < len(steps):
            return None, {}
    least: dict[str, float | None] = {}
    reward: float | None = None
    for result in verified:
        rewards = result.rewards or {}
        if not rewards:
            return None, {}
        key = scorer or ("reward" if "reward" in rewards else None)
        if key is None and len(rewards) == 1:
            key = next(iter(rewards))
        if key is None or key not in rewards:
            raise _UnchosenError(", ".join(named(name) for name in sorted(rewards)))
        value = rewards[key]
        if value is None:
            return None, {}
        reward = value if reward is None else min(reward, value)
        for name, other in rewards.items():
            if name != key:
                earlier = least.get(name, other)
                least[name] = None if other is None or earlier is None else min(other, earlier)
    return reward, least


def _agent_time(steps: Sequence[_Step]) -> float | None:
    total = None
    for step in steps:
        phase = step.agent_execution
        if phase is None:
            return None
        took = between(seconds(phase.started_at), seconds(phase.finished_at))
        if took is None:
            return None
        total = took if total is None else round(total + took, 6)
    return total


def _cost(results: Sequence[HarborResult]) -> float | None:
    costs = [result.cost_usd for result in results if result.cost_usd is not None]
    return round(sum(costs), 9) if costs and len(costs) == len(results) else None


def spend_of(
    results: Sequence[HarborResult],
    trajectory: HarborTrajectory | None,
    info: _AgentInfo,
    model: str | None,
    where: Position,
    caveats: list[str],
) -> Spend | None:
    """What results come to, with what only the trajectory tells; None if one has no counts."""
    if not results:
        return None
    with_cache = output = read = 0
    cache_known = False
    for result in results:
        if result.n_input_tokens is None or result.n_output_tokens is None:
            return None
        with_cache += result.n_input_tokens
        output += result.n_output_tokens
        read += result.n_cache_tokens or 0
        cache_known = cache_known or result.n_cache_tokens is not None
    written: int | None = None
    if info.name == "claude-code":
        # Harbor counts what Claude writes to the cache as input.
        written = _extra(trajectory, "cache_creation_input_tokens")
        if written is None:
            caveats.append("cache_write_inside_input")
    elif info.name == "opencode":
        output += _reasoning(trajectory, info.version, caveats)
        if trajectory is not None:
            written = _extra(trajectory, "cache_write_tokens")
            with_cache += written or 0
    return Spend(
        model=model,
        input=outside_cache(with_cache, read, written or 0, where=where),
        output=output,
        cache_read=read if cache_known else None,
        cache_write=written,
    )


def _reasoning(trajectory: HarborTrajectory | None, version: str | None, caveats: list[str]) -> int:
    """Reasoning tokens that opencode counts beside its output."""
    if opencode_output_includes_reasoning(version):
        return 0
    if trajectory is None:
        caveats.append("reasoning_left_out")
        return 0
    return _extra(trajectory, "reasoning_tokens") or 0


def _extra(trajectory: HarborTrajectory | None, key: str) -> int | None:
    """The sum of a count that agents put beside the metrics of each step."""
    if trajectory is None:
        return None
    total = 0
    for step in trajectory.steps:
        extra = step.metrics.extra if step.metrics is not None else None
        value = extra.get(key) if extra else None
        if type(value) is int and value > 0:
            total += value
    return total
