"""Which runs count; every excluded run keeps its reason."""

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from twoarm.compare.chosen import ChosenTasks, of_parts, of_tasks, refuse_two_tags
from twoarm.compare.same_checks import differing_checks
from twoarm.compare.trials import Excluded, ExcludedKind, Trials, account, left_out
from twoarm.errors import ArmsError, BadRunsError, Caveat, Problem, Problems
from twoarm.options import Missing, Options, either, option
from twoarm.runs.arrays import Flags, Floats, Ints, measured
from twoarm.runs.metric import METRICS, SCORE
from twoarm.runs.runs import Runs
from twoarm.text.escape import counted, named
from twoarm.text.sentence import Name, listed

WITH, WITHOUT = "with_", "without_"
# How many arms an error lists before it only counts.
_LISTED_ARMS = 20


class Arms(msgspec.Struct, frozen=True, kw_only=True):
    """The two arms by role."""

    candidate: str
    baseline: str

    @property
    def both(self) -> tuple[str, str]:
        """Candidate and baseline, in this order everywhere."""
        return self.candidate, self.baseline


class ArmRuns(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of one arm that count, ordered by task and repeat; a column per metric name."""

    arm: str
    rows: Ints
    task: Ints
    key: Ints
    values: dict[str, Floats]

    def __len__(self) -> int:
        return len(self.key)

    def take(self, at: Ints) -> "ArmRuns":
        """Some of the runs."""
        return ArmRuns(
            arm=self.arm,
            rows=self.rows[at],
            task=self.task[at],
            key=self.key[at],
            values={name: values[at] for name, values in self.values.items()},
        )


class Screening(msgspec.Struct, frozen=True, kw_only=True):
    """Kept and excluded runs: together, all that were read."""

    candidate: ArmRuns
    baseline: ArmRuns
    excluded: tuple[Excluded, ...]
    trials: tuple[Trials, Trials]
    # None if all of them were asked for.
    chosen_tasks: ChosenTasks | None
    caveats: tuple[Caveat, ...]

    @property
    def arms(self) -> tuple[ArmRuns, ArmRuns]:
        """Candidate and baseline, in this order everywhere."""
        return self.candidate, self.baseline

    def excluded_runs(self, kind: ExcludedKind, arm: str | None = None) -> int:
        """How many runs were excluded for this kind of reason, in one arm or in all."""
        return sum(
            group.runs
            for group in self.excluded
            if group.kind == kind and (arm is None or group.arm == arm)
        )


def choose_candidates(
    known: tuple[str, ...], candidates: Sequence[str] | None, baseline: str | None
) -> list[Arms]:
    """Each candidate with the one baseline: those named, or every other arm."""
    if baseline is None:
        raise ArmsError(
            "several candidates need a baseline by name; arms found: "
            f"{listed(sorted(known), _LISTED_ARMS)}"
        )
    names = list(candidates or [arm for arm in sorted(known) if arm != baseline])
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ArmsError(f"candidate {named(twice[0])} is named twice")
    if not names:
        raise ArmsError(f"no arm beside the baseline {named(baseline)}")
    return [choose_arms(known, name, baseline) for name in names]


def choose_arms(known: tuple[str, ...], candidate: str | None, baseline: str | None) -> Arms:
    """The two roles: as named, or inferred from the names `with_X` and `without_X`."""
    listing = listed(sorted(known), _LISTED_ARMS)
    for role, given in (("candidate", candidate), ("baseline", baseline)):
        if given is not None and given not in known:
            together = given.split(",")
            hint = "; give it again for each arm" if set(together) <= set(known) else ""
            raise ArmsError(
                f"{option(role)}: no runs of arm {named(given)}; arms found: {listing}{hint}"
            )
    if candidate is not None and candidate == baseline:
        raise ArmsError(
            f"candidate and baseline are both {named(candidate)}; name two different arms"
        )
    if candidate is not None and baseline is not None:
        return Arms(candidate=candidate, baseline=baseline)
    if candidate is None and baseline is None:
        if len(known) == 2 and opposite(known[0]) == known[1]:
            return _by_prefix(known[0], known[1])
    elif len(known) == 2:
        other = next(arm for arm in known if arm not in (candidate, baseline))
        return Arms(candidate=candidate or other, baseline=baseline or other)
    absent = opposite(known[0]) if len(known) == 1 else None
    if absent is not None:
        # Half of a comparison: the report says that the other half is missing.
        if candidate is None and baseline is None:
            return _by_prefix(known[0], absent)
        return Arms(candidate=candidate or absent, baseline=baseline or absent)
    if len(known) == 1:
        raise ArmsError(f"only one arm found: {listing}; a comparison needs runs of two")
    missing = " and ".join(
        option(role)
        for role, given in (("candidate", candidate), ("baseline", baseline))
        if given is None
    )
    several = either(flag="", argument="; compare_candidates() takes several candidates at once")
    raise ArmsError(f"which arms? name them with {missing}; arms found: {listing}{several}")


def opposite(arm: str) -> str | None:
    """`without_X` for `with_X`, and the other way around; None for any other name."""
    for prefix, other in ((WITH, WITHOUT), (WITHOUT, WITH)):
        x = arm.removeprefix(prefix)
        if x and x != arm:
            return f"{other}{x}"
    return None


def _by_prefix(arm: str, other: str) -> Arms:
    candidate, baseline = (arm, other) if arm.startswith(WITH) else (other, arm)
    return Arms(candidate=candidate, baseline=baseline)


def screen(runs: Runs, arms: Arms, options: Options) -> Screening:
    """Split the runs into those of the two arms that count and those that do not, and why."""
    refuse_two_tags(runs)
    sizes = dict(zip(runs.arms, np.bincount(runs.arm, minlength=len(runs.arms)), strict=True))
    others = [
        Excluded(kind="other arm", reason="another arm", arm=arm, runs=int(sizes[arm]))
        for arm in sorted(set(runs.arms).difference(arms.both))
    ]
    unwanted = left_out(runs, keep_infra=options.keep_infra)
    kept, lines = (
        [_rows(runs, arm, flags) for arm in arms.both] for flags in (~unwanted, unwanted)
    )
    chosen_tasks = None
    for kind, reason, asked in _apart(runs, options):
        for arm, *sides in zip(arms.both, kept, lines, strict=True):
            if gone := sum(int((~asked[rows]).sum()) for rows in sides):
                others.append(Excluded(kind=kind, reason=reason, arm=arm, runs=gone))
        kept, lines = ([rows[asked[rows]] for rows in side] for side in (kept, lines))
        if kind == "other task":
            chosen_tasks = _chosen_tasks(runs, arms, asked)
    differing = differing_checks(runs, np.concatenate(kept))
    if differing:
        raise BadRunsError(Problems(differing))
    if options.duplicates == "error":
        problems = Problems(
            problem for rows in kept for problem in _duplicate_problems(runs, rows, runs.key[rows])
        )
        if problems.count:
            raise BadRunsError(problems)
    duplicates = []
    for number, arm in enumerate(arms.both):
        again = _repeated(runs.key[kept[number]])
        if len(again):
            # Of two neighbors with the same key, the earlier in the file comes first.
            surplus = again if options.duplicates == "first" else again - 1
            kept[number] = np.delete(kept[number], surplus)
            reason = f"duplicate: not the {options.duplicates} of its task and repeat"
            excluded = Excluded(kind="duplicate", reason=reason, arm=arm, runs=len(again))
            duplicates.append(excluded)
    ours, theirs = (account(runs, *side) for side in zip(arms.both, kept, lines, strict=True))
    caveats: list[Caveat] = []
    candidate, baseline = (
        _arm_runs(runs, arm, rows, options.missing, caveats)
        for arm, rows in zip(arms.both, kept, strict=True)
    )
    return Screening(
        candidate=candidate,
        baseline=baseline,
        excluded=(*others, *ours.excluded, *theirs.excluded, *duplicates),
        trials=(ours.trials, theirs.trials),
        chosen_tasks=chosen_tasks,
        caveats=tuple(caveats),
    )


def _apart(runs: Runs, options: Options) -> Iterator[tuple[ExcludedKind, str, Flags]]:
    """What was not asked for: its kind, the reason, and which runs were."""
    if options.part is not None:
        yield "other part", "another part", of_parts(runs, options.part)
    if options.tag is not None or options.task is not None:
        yield "other task", "another task", of_tasks(runs, options)


def _chosen_tasks(runs: Runs, arms: Arms, asked: Flags) -> ChosenTasks | None:
    """How many tasks are left, of those that the two arms have; None if all of them are."""
    codes = [_code(runs, arm) for arm in arms.both]
    compared = np.isin(runs.arm, codes)
    tasks, of = (
        int(np.count_nonzero(np.bincount(runs.task[rows]))) for rows in (compared & asked, compared)
    )
    return ChosenTasks(tasks=tasks, of=of) if tasks < of else None


def _code(runs: Runs, arm: str) -> int:
    return runs.arms.index(arm) if arm in runs.arms else -1


def find_duplicates(runs: Runs) -> list[Problem]:
    """Every second run of a task, arm and repeat among those that are neither infra nor missing."""
    rows = np.flatnonzero(~left_out(runs, keep_infra=False)[runs.outcome])
    order = np.lexsort((runs.key[rows], runs.arm[rows]))
    rows = rows[order]
    # One number per arm and key, in this order.
    new = (np.diff(runs.arm[rows]) != 0) | (np.diff(runs.key[rows]) != 0)
    return _duplicate_problems(runs, rows, np.concatenate(([0], np.cumsum(new)))[: len(rows)])


def _rows(runs: Runs, arm: str, wanted: Flags) -> Ints:
    """The rows of an arm with some outcomes, ordered by task and repeat."""
    if not wanted.any():
        return np.zeros(0, dtype=np.int64)
    rows = np.flatnonzero(runs.arm == _code(runs, arm))
    if not wanted.all():
        rows = rows[wanted[runs.outcome[rows]]]
    return rows[np.argsort(runs.key[rows], kind="stable")]


def _repeated(ordered: Ints) -> Ints:
    """The positions in an ordered column whose value is that of the position before."""
    return np.flatnonzero(ordered[1:] == ordered[:-1]) + 1


def _duplicate_problems(runs: Runs, rows: Ints, keys: Ints) -> list[Problem]:
    """A problem for each row that has the key of the one before; rows are in order of keys."""
    problems = []
    choice = either(flag="--duplicates first|last", argument='`duplicates="first"` or `"last"`')
    for row, earlier in sorted((int(rows[at]), int(rows[at - 1])) for at in _repeated(keys)):
        task = named(runs.tasks[int(runs.task[row])])
        arm = named(runs.arms[int(runs.arm[row])])
        message = (
            f"task {task}, arm {arm}, repeat {int(runs.repeat[row])} was already given at "
            f"{runs.positions.of(earlier)}; keep one, or choose with {choice}"
        )
        problems.append(runs.positions.of(row).problem(message, "repeat", "already given"))
    return problems


def _arm_runs(runs: Runs, arm: str, rows: Ints, missing: Missing, caveats: list[Caveat]) -> ArmRuns:
    numbers = {name: values[rows] for name, values in runs.numbers.items()}
    if missing == "zero":
        absent = sum(len(rows) - len(measured(values)) for values in numbers.values())
        if absent:
            caveats.append(
                Caveat.say(
                    "missing_as_zero",
                    "{} in {} read as 0 (--missing zero): runs that were not measured look free",
                    counted(absent, "missing value"),
                    Name(arm),
                )
            )
        numbers = {name: np.nan_to_num(values, nan=0.0) for name, values in numbers.items()}
    success = runs.success[rows]
    own = np.array([outcome.failure == "agent" for outcome in runs.outcomes])
    failed = own[runs.outcome[rows]]
    claimed = int(success[failed].sum())
    if claimed:
        success = np.where(failed, 0.0, success)
        caveats.append(
            Caveat.say(
                "agent_failure_with_success",
                "{} in {} with success true although the agent failed (failure is {}): counted as "
                "failed",
                counted(claimed, "run"),
                Name(arm),
                Name("agent"),
            )
        )
    numbers["success"] = success
    # A score that is missing is never taken for a zero.
    numbers["score"] = runs.score[rows]
    return ArmRuns(
        arm=arm,
        rows=rows,
        task=runs.task[rows],
        key=runs.key[rows],
        values={
            metric.name: _added([numbers[part] for part in metric.parts])
            for metric in (*METRICS, SCORE)
        },
    )


def _added(columns: list[Floats]) -> Floats:
    """The row-wise sum; a row with a value not measured is not measured."""
    total = columns[0]
    for column in columns[1:]:
        total = total + column
    return total
