"""Which runs count; every excluded run keeps its reason."""

from typing import Literal

import msgspec

from twoarm import column
from twoarm.column import Floats, Ints
from twoarm.errors import ArmsError, BadRunsError, Caveat, Problem
from twoarm.metric import METRICS
from twoarm.quote import counted, named
from twoarm.runfile import LISTED
from twoarm.runs import Runs

DEFAULT_CANDIDATE = "with_skelly"
DEFAULT_BASELINE = "without_skelly"
# How many arms an error lists before it only counts.
_LISTED_ARMS = 20

Duplicates = Literal["error", "first", "last"]
Missing = Literal["keep", "zero"]


class Arms(msgspec.Struct, frozen=True, kw_only=True):
    """The two arms by role."""

    candidate: str
    baseline: str


class Excluded(msgspec.Struct, frozen=True, kw_only=True):
    """How many runs of one arm were read but not counted, for one reason."""

    reason: str
    arm: str
    runs: int


class ArmRuns(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of one arm that count, ordered by task and repeat; a column per metric name."""

    arm: str
    rows: Ints
    task: Ints
    key: Ints
    values: dict[str, Floats]

    def __len__(self) -> int:
        return len(self.key)


class Screening(msgspec.Struct, frozen=True, kw_only=True):
    """Kept and excluded runs: together, all that were read."""

    candidate: ArmRuns
    baseline: ArmRuns
    excluded: tuple[Excluded, ...]
    excluded_infra: int
    caveats: tuple[Caveat, ...]

    @property
    def arms(self) -> tuple[ArmRuns, ArmRuns]:
        """Candidate and baseline, in this order everywhere."""
        return self.candidate, self.baseline


def choose_arms(found: tuple[str, ...], candidate: str | None, baseline: str | None) -> Arms:
    """The two roles: as named, or told by the names `with_X` and `without_X`."""
    listing = ", ".join(named(arm) for arm in sorted(found)[:_LISTED_ARMS])
    if len(found) > _LISTED_ARMS:
        listing += f" and {len(found) - _LISTED_ARMS:,} more"
    for given in (candidate, baseline):
        if given is not None and given not in found:
            raise ArmsError(f"no runs of arm {named(given)}; arms found: {listing}")
    if candidate is not None and candidate == baseline:
        raise ArmsError(f"candidate and baseline are both {named(candidate)}; name two arms")
    if candidate is not None and baseline is not None:
        return Arms(candidate=candidate, baseline=baseline)
    if candidate is None and baseline is None:
        if set(found) <= {DEFAULT_CANDIDATE, DEFAULT_BASELINE}:
            return Arms(candidate=DEFAULT_CANDIDATE, baseline=DEFAULT_BASELINE)
        if len(found) == 2:
            for with_x, without_x in (found, found[::-1]):
                x = with_x.removeprefix("with_")
                if x != with_x and without_x == f"without_{x}":
                    return Arms(candidate=with_x, baseline=without_x)
    elif len(found) == 2:
        other = next(arm for arm in found if arm not in (candidate, baseline))
        return Arms(candidate=candidate or other, baseline=baseline or other)
    missing = " and ".join(
        option
        for option, given in (("--candidate", candidate), ("--baseline", baseline))
        if given is None
    )
    raise ArmsError(f"which arms? name them with {missing}; arms found: {listing}")


def screen(
    runs: Runs,
    arms: Arms,
    *,
    duplicates: Duplicates = "error",
    missing: Missing = "keep",
    keep_infra: bool = False,
) -> Screening:
    """Split the runs into those of the two arms that count and those that do not, and why."""
    excluded: list[Excluded] = []
    both = (arms.candidate, arms.baseline)
    sizes = dict(zip(runs.arms, column.counts(runs.arm, len(runs.arms)), strict=True))
    for arm in sorted(set(runs.arms).difference(both)):
        excluded.append(Excluded(reason="another arm", arm=arm, runs=sizes[arm]))
    excluded_infra = 0
    for arm in () if keep_infra else both:
        gone = _infra_runs(runs, arm)
        excluded += gone
        excluded_infra += sum(group.runs for group in gone)
    kept = [_rows(runs, arm, keep_infra=keep_infra) for arm in both]
    if duplicates == "error":
        problems = [
            problem
            for rows in kept
            for problem in _duplicate_problems(runs, rows, column.take(runs.key, rows))
        ]
        if problems:
            raise BadRunsError(problems[:LISTED], len(problems))
    for number, arm in enumerate(both):
        again = column.repeated(column.take(runs.key, kept[number]))
        if again:
            # Of two neighbours with one key, the earlier in the file stands first.
            unwanted = again if duplicates == "first" else [at - 1 for at in again]
            kept[number] = column.without(kept[number], unwanted)
            reason = f"duplicate: not the {duplicates} of its task and repeat"
            excluded.append(Excluded(reason=reason, arm=arm, runs=len(again)))
    caveats: list[Caveat] = []
    candidate = _arm_runs(runs, arms.candidate, kept[0], missing, caveats)
    baseline = _arm_runs(runs, arms.baseline, kept[1], missing, caveats)
    return Screening(
        candidate=candidate,
        baseline=baseline,
        excluded=tuple(excluded),
        excluded_infra=excluded_infra,
        caveats=tuple(caveats),
    )


def find_duplicates(runs: Runs) -> list[Problem]:
    """Every second run of a task, arm and repeat among those that are not infra failures."""
    rows = column.rows_where(runs.outcome, [one.failure != "infra" for one in runs.outcomes])
    keys = column.joined_keys(column.take(runs.arm, rows), column.take(runs.key, rows))
    order = column.order(keys)
    return _duplicate_problems(runs, column.take(rows, order), column.take(keys, order))


def _rows(runs: Runs, arm: str, *, keep_infra: bool) -> Ints:
    """The rows of an arm, ordered by task and repeat."""
    rows = column.rows_where(runs.arm, [name == arm for name in runs.arms])
    if not keep_infra and len(runs.outcomes) > 1:
        counted = [outcome.failure != "infra" for outcome in runs.outcomes]
        rows = column.take(rows, column.rows_where(column.take(runs.outcome, rows), counted))
    ordered: Ints = column.take(rows, column.order(column.take(runs.key, rows)))
    return ordered


def _infra_runs(runs: Runs, arm: str) -> list[Excluded]:
    rows = column.rows_where(runs.arm, [name == arm for name in runs.arms])
    counts = column.counts(column.take(runs.outcome, rows), len(runs.outcomes))
    groups = [
        Excluded(reason=f"infra: {outcome.reason}", arm=arm, runs=count)
        for outcome, count in zip(runs.outcomes, counts, strict=True)
        if outcome.failure == "infra" and count
    ]
    return sorted(groups, key=lambda group: group.reason)


def _duplicate_problems(runs: Runs, rows: Ints, keys: Ints) -> list[Problem]:
    """A problem for each row that has the key of the one before; rows are in order of keys."""
    found = [(int(rows[at]), int(rows[at - 1])) for at in column.repeated(keys)]
    problems = []
    for row, earlier in sorted(found):
        task = named(runs.tasks[int(runs.task[row])])
        arm = named(runs.arms[int(runs.arm[row])])
        message = (
            f"task {task}, arm {arm}, repeat {int(runs.repeat[row])} is already at "
            f"{runs.positions.of(earlier)}; keep one, or choose with --duplicates first|last"
        )
        problems.append(Problem(where=runs.positions.of(row), field="repeat", message=message))
    return problems


def _arm_runs(runs: Runs, arm: str, rows: Ints, missing: Missing, caveats: list[Caveat]) -> ArmRuns:
    numbers = {name: column.take(values, rows) for name, values in runs.numbers.items()}
    if missing == "zero":
        absent = sum(len(rows) - len(column.measured(values)) for values in numbers.values())
        if absent:
            message = (
                f"{counted(absent, 'value')} of {named(arm)} not measured and read as 0 "
                "(--missing zero): unmeasured runs look free"
            )
            caveats.append(Caveat(code="missing_as_zero", message=message))
        numbers = {name: column.filled(values, 0.0) for name, values in numbers.items()}
    success = column.take(runs.success, rows)
    own = [outcome.failure == "agent" for outcome in runs.outcomes]
    if any(own):
        failed = column.rows_where(column.take(runs.outcome, rows), own)
        claimed = int(column.total(column.take(success, failed)))
        if claimed:
            success = column.zeroed(success, failed)
            caveats.append(
                Caveat(
                    code="agent_failure_with_success",
                    message=f"{counted(claimed, 'run')} of {named(arm)} with success true although "
                    "the agent failed (failure is `agent`): counted as failed",
                )
            )
    numbers["success"] = success
    values = {
        metric.name: column.added([numbers[part] for part in metric.parts]) for metric in METRICS
    }
    return ArmRuns(
        arm=arm,
        rows=rows,
        task=column.take(runs.task, rows),
        key=column.take(runs.key, rows),
        values=values,
    )
