"""Inspect: JSON logs and `.eval` archives, one run per sample and epoch."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

import msgspec

from twoarm.errors import Position, Problem
from twoarm.options import option
from twoarm.programs.failure import agent, infra
from twoarm.programs.folder import Folder, SourceError, decoded
from twoarm.programs.format import Attempt, Failed, Format, Settings
from twoarm.programs.inspect.archive import Archive, open_archive
from twoarm.programs.moment import seconds
from twoarm.programs.scores import as_checks, as_score
from twoarm.programs.tokens import Count, Quantity, Spend, outside_cache
from twoarm.programs.uptake import KINDS, Call, Calls
from twoarm.programs.version import numbers, unsupported
from twoarm.runs.record import LARGEST, Repeat
from twoarm.text.escape import named

NEWEST_VERSION = 2

# From this version on, input tokens leave the cache out for every provider.
DISJOINT_SINCE = (0, 3, 185)

# Letters that Inspect's own scorers give, as it counts them.
_LETTERS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}

# Limits whose reaching is a failure whatever the score says: a timeout, an outgrown context.
_FATAL_LIMITS = ("time", "working", "context")


class InspectUsage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What was spent; whether input includes the cache depends on the version."""

    input_tokens: Count
    output_tokens: Count
    total_tokens: Count | None = None
    input_tokens_cache_read: Count | None = None
    input_tokens_cache_write: Count | None = None
    total_cost: Quantity | None = None


class _Score(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    value: Any
    explanation: Any = None


class _Raised(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    message: str


class _Limit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    type: str


class InspectEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Something that happened in a sample."""

    event: str
    function: Any = None
    arguments: msgspec.Raw = msgspec.Raw(b"null")
    error: Any = None
    timestamp: Any = None
    completed: Any = None
    model: Any = None
    result: msgspec.Raw = msgspec.Raw(b"null")
    output: msgspec.Raw = msgspec.Raw(b"null")


class InspectSample(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A run."""

    id: int | str
    epoch: Repeat
    input: msgspec.Raw = msgspec.Raw(b"null")
    scores: dict[str, _Score] | None = None
    model_usage: dict[str, InspectUsage] = {}
    uuid: str | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    total_time: Quantity | None = None
    working_time: Quantity | None = None
    error: _Raised | None = None
    limit: _Limit | None = None
    error_retries: list[msgspec.Raw] | None = None
    turn_count: Count | None = None
    events: Sequence[InspectEvent] = ()


class _Headline(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    scorer: str | None = None


class _Results(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    headline: _Headline | None = None


class _Log(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    version: int
    status: str
    eval: dict[str, Any]
    results: _Results | None = None


class _Whole(_Log, frozen=True, kw_only=True, gc=False):
    samples: list[msgspec.Raw] | None = None


class _Start(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    version: int
    eval: dict[str, Any]


_LOG = msgspec.json.Decoder(_Log)
WHOLE = msgspec.json.Decoder(_Whole)
_START = msgspec.json.Decoder(_Start)
SAMPLE = msgspec.json.Decoder(InspectSample)


class InspectAi:
    """Logs of Inspect, wherever they stand in a folder."""

    name: ClassVar[str] = "inspect"
    one_run_per_folder: ClassVar[bool] = False

    def recognizes(self, folder: Folder) -> bool:
        """A log."""
        return any(_is_log(folder, name, claimed=False) for name in folder.names)

    def claims(self, folder: Folder) -> Sequence[str]:
        """Every log; other JSON files, such as listings of logs, are left alone."""
        # What cannot be opened is claimed, so that reading it says what is wrong.
        return [name for name in sorted(folder.names) if _is_log(folder, name, claimed=True)]

    def read(self, folder: Folder, name: str, settings: Settings) -> Iterator[Attempt | Problem]:
        """The samples of one log."""
        if name.endswith(".eval"):
            with open_archive(folder, name) as archive:
                yield from _samples(archive, settings)
            return
        log = folder.decode(name, WHOLE)
        _check_version(folder, name, log.version)
        if not log.samples:
            raise folder.refuse("a log without samples; write it with samples", name)
        for number, sample in enumerate(log.samples, 1):
            where = Position(f"{folder.where(name)}:sample {number}")
            try:
                yield _attempt(decoded(bytes(sample), SAMPLE, where), where, log, settings)
            except SourceError as error:
                yield error.problem


record: type[Format] = InspectAi


def _is_log(folder: Folder, name: str, *, claimed: bool) -> bool:
    if not name.endswith(".json"):
        return name.endswith(".eval")
    try:
        head = folder.head(name)
        if not head.startswith(b'{"version":'):
            return False
        if b'"status":' in head[:64]:
            return True
        # A version may be anything of any length; what is read says that it is none.
        text = folder.read(name) if claimed else b""
    except SourceError:
        return claimed
    return b'"eval":' in text and b'"samples":' in text


def _samples(archive: Archive, settings: Settings) -> Iterator[Attempt | Problem]:
    """The samples of an archive, one member each."""
    log = log_of(archive)
    _check_version(archive.folder, archive.name, log.version)
    samples = archive.samples()
    if not samples:
        raise archive.folder.refuse("a log without samples", archive.name)
    for member in samples:
        where = archive.where(member)
        try:
            yield _attempt(decoded(archive.read(member), SAMPLE, where), where, log, settings)
        except SourceError as error:
            if archive.spent:
                # Nothing else of it is unpacked: each member could take as long.
                raise
            yield error.problem


def log_of(archive: Archive) -> _Log:
    """The log of an archive without its samples, even if it was never finished."""
    if "header.json" in archive:
        return decoded(archive.read("header.json"), _LOG, archive.where("header.json"))
    if "_journal/start.json" in archive:
        start = decoded(archive.read("_journal/start.json"), _START, archive.where("start.json"))
        return _Log(version=start.version, status="started", eval=start.eval)
    raise archive.folder.refuse(
        "not a log of Inspect: it has neither a header nor a journal", archive.name
    )


def _check_version(folder: Folder, name: str, version: int) -> None:
    if not 1 <= version <= NEWEST_VERSION:
        raise unsupported(folder, name, f"log version {version}", f"1 to {NEWEST_VERSION}")


def _attempt(sample: InspectSample, where: Position, log: _Log, settings: Settings) -> Attempt:
    header = log.eval
    model = header.get("model")
    model = model if isinstance(model, str) else None
    caveats: list[str] = []
    failure: Failed | None = None
    passed, score, checks = False, None, None
    if sample.error is not None:
        failure = infra(sample.error.message.strip().split("\n", 1)[0])
    else:
        scorer = _scorer(sample, where, log, settings)
        passed = _passed(sample, scorer, where, settings)
        grades = {name: _number(graded.value) for name, graded in (sample.scores or {}).items()}
        score, checks = as_score(grades.pop(scorer)), as_checks(grades)
        if sample.limit is not None:
            if sample.limit.type == "operator":
                failure = infra("stopped by the operator")
            elif not passed or sample.limit.type in _FATAL_LIMITS:
                failure = agent(f"{sample.limit.type} limit reached")
            else:
                caveats.append("limit_reached")
        if settings.scorer is None and len(sample.scores or ()) > 1:
            caveats.append("scorer_chosen")
    if sample.error_retries:
        caveats.append("retried")
    if log.status != "success":
        caveats.append("log_unfinished")
    spends, cost = spends_of(sample, where, header, model, caveats)
    kinds = [event.event for event in sample.events]
    steps = sample.turn_count if sample.turn_count is not None else kinds.count("model")
    return Attempt(
        where=where,
        task_id=_task_id(sample, where, header, settings),
        repeat=sample.epoch,
        success=passed,
        failure=failure,
        duration_seconds=_duration(sample, where, settings),
        started=seconds(sample.started_at),
        ended=seconds(sample.completed_at),
        cost_usd=cost,
        spends=spends,
        took_steps=steps > 0,
        document={"eval": header, "status": log.status, "version": log.version},
        configuration=_configuration(header, model),
        # Samples of two tasks may share their ids: one arm has one task, unless ids are qualified.
        scope=str(header.get("task")) if settings.task_names else "",
        caveats=tuple(caveats),
        step_count=steps,
        tool_call_count=kinds.count("tool") if kinds else None,
        calls=_calls(sample.events) if kinds else None,
        score=score,
        checks=checks,
        run_id=sample.uuid,
        model=model,
        agent="inspect",
    )


def _configuration(header: Mapping[str, Any], model: str | None) -> tuple[tuple[str, Any], ...]:
    return (
        ("eval.task", header.get("task")),
        ("eval.model", model),
        ("eval.task_args", header.get("task_args")),
        ("eval.model_args", header.get("model_args")),
        ("eval.model_generate_config", header.get("model_generate_config")),
        ("eval.packages.inspect_ai", _version_text(header)),
    )


def _calls(events: Sequence[InspectEvent]) -> Calls:
    """Every tool that ran, with its error; how a command ended is not in a log."""
    made = tuple(
        Call(name=str(event.function or ""), failed=event.error is not None, asked=event.arguments)
        for event in events
        if event.event == "tool"
    )
    return Calls(made=made, shows=KINDS, tells_failures=True)


def _task_id(
    sample: InspectSample, where: Position, header: Mapping[str, Any], settings: Settings
) -> str:
    if not settings.task_names:
        return str(sample.id)
    task = header.get("task")
    if not isinstance(task, str):
        raise SourceError(where, f"no task name in eval.task, which {option('task_names')} needs")
    return f"{task}/{sample.id}"


def _duration(sample: InspectSample, where: Position, settings: Settings) -> float:
    took = sample.working_time if settings.working_time else sample.total_time
    if took is None:
        name = "working_time" if settings.working_time else "total_time"
        raise SourceError(where, f"no {name}; a run cannot be scored without a duration")
    return took


def _scorer(sample: InspectSample, where: Position, log: _Log, settings: Settings) -> str:
    """The scorer that decides success."""
    scores = sample.scores or {}
    chosen = settings.scorer or _default_scorer(log)
    if chosen is None or chosen not in scores:
        if not scores:
            raise SourceError(where, "neither a score nor an error; the sample was not scored")
        listing = ", ".join(named(name) for name in sorted(scores))
        raise SourceError(
            where,
            f"no score of {named(str(chosen))}; choose one of {listing} with {option('scorer')}",
        )
    return chosen


def _number(value: Any) -> float | None:
    """A score as Inspect counts it; None for what is no number."""
    number = _LETTERS.get(value) if isinstance(value, str) else value
    return number if isinstance(number, int | float) and abs(number) <= LARGEST else None


def _passed(sample: InspectSample, scorer: str, where: Position, settings: Settings) -> bool:
    value = (sample.scores or {})[scorer].value
    number = _number(value)
    if isinstance(number, bool):
        return number
    if number is None:
        raise SourceError(where, f"a score of {named(str(value))}; expected C, I or a number")
    if settings.threshold is not None:
        return number >= settings.threshold
    if value in ("P", "N") or number not in (0, 1):
        raise SourceError(
            where,
            f"a score of {named(str(value))}; {option('threshold')} sets the least that is a "
            "success",
        )
    return number == 1


def _default_scorer(log: _Log) -> str | None:
    """The headline of the log, or else the first scorer of the task."""
    if log.results is not None and log.results.headline is not None:
        return log.results.headline.scorer
    scorers = log.eval.get("scorers")
    first = scorers[0] if isinstance(scorers, list) and scorers else None
    name = first.get("name") if isinstance(first, dict) else None
    return name if isinstance(name, str) else None


def spends_of(
    sample: InspectSample,
    where: Position,
    header: Mapping[str, Any],
    model: str | None,
    caveats: list[str],
) -> tuple[tuple[Spend, ...] | None, float | None]:
    """The evaluated model's spend; graders are in the log as well, and are not the agent's."""
    used = sample.model_usage
    if not used:
        return None, None
    if model in used and len(used) > 1:
        caveats.append("other_models_left_out")
        used = {model: used[model]}
    version = version_of(header)
    spends = tuple(
        spend_of(usage, where, version, name, caveats) for name, usage in sorted(used.items())
    )
    costs = [usage.total_cost for usage in used.values()]
    known = [cost for cost in costs if cost is not None]
    return spends, round(sum(known), 9) if len(known) == len(costs) else None


def spend_of(
    usage: InspectUsage,
    where: Position,
    version: tuple[int, ...] | None,
    model: str | None,
    caveats: list[str],
) -> Spend:
    """What was spent, outside the cache and in it."""
    read, written = usage.input_tokens_cache_read or 0, usage.input_tokens_cache_write or 0
    tokens = usage.input_tokens
    if read or written:
        apart = usage.total_tokens == tokens + usage.output_tokens + read + written
        together = usage.total_tokens == tokens + usage.output_tokens
        if version is not None and version >= DISJOINT_SINCE:
            if usage.total_tokens is not None and not apart:
                caveats.append("total_disagrees")
        elif together:
            tokens = outside_cache(tokens, read, written, where=where)
        elif not apart:
            raise SourceError(
                where,
                "input tokens that may or may not include the cache: before Inspect 0.3.185 it "
                "depended on the provider, and the total of this sample does not settle it",
            )
    return Spend(
        model=model,
        input=tokens,
        output=usage.output_tokens,
        cache_read=usage.input_tokens_cache_read,
        cache_write=usage.input_tokens_cache_write,
    )


def _version_text(header: Mapping[str, Any]) -> str | None:
    packages = header.get("packages")
    version = packages.get("inspect_ai") if isinstance(packages, dict) else None
    return version if isinstance(version, str) else None


def version_of(header: Mapping[str, Any]) -> tuple[int, ...] | None:
    """The Inspect that wrote a log; None if it does not say."""
    version = numbers(_version_text(header) or "")[:3]
    return version if len(version) == 3 else None
