"""What became of every planned run, and which lines of an arm are not runs that count."""

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec
import numpy as np

from twoarm.runs.arrays import Flags, Ints
from twoarm.runs.record import NOT_YET_RUN, OVER_BUDGET
from twoarm.runs.runs import Outcome, Runs

ExcludedKind = Literal[
    "infra", "missing", "interrupted", "duplicate", "other arm", "other part", "other task"
]

# Lines of planned runs that say nothing about how the agent did.
_ABSENT = ("missing", "interrupted")
# Lines that call a planned run missing, and add nothing to what others say.
HAS_A_RUN = "missing, but there is a run"
SAID_AGAIN = "missing, as another line says"


class Excluded(msgspec.Struct, frozen=True, kw_only=True):
    """How many lines of one arm were read but not counted, for one reason."""

    kind: ExcludedKind
    reason: str
    arm: str
    runs: int


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """Why so many planned runs have no result."""

    reason: str
    trials: int


class Trials(msgspec.Struct, frozen=True, kw_only=True):
    """The planned runs of one arm: every task and repeat that a line of it names.

    Each is one of three, however often it was tried: counted, if there is a run; missing, if a
    line says so, or that it was interrupted; excluded, if all there is are infra failures. Of
    several reasons it has the first in the alphabet, so that the order of lines does not matter.
    `interrupted` are those among the counted that broke off before, and were run again.
    """

    arm: str
    planned: int
    counted: int
    excluded: int
    missing: int
    interrupted: int
    excluded_reasons: tuple[Reason, ...]
    missing_reasons: tuple[Reason, ...]

    @property
    def lost(self) -> int:
        """How many have no run that counts."""
        return self.excluded + self.missing

    @property
    def at_risk(self) -> int:
        """How many have no run that counts, or one that was not the first to be made."""
        return self.lost + self.interrupted


def stopped_early(trials: tuple[Trials, Trials]) -> bool:
    """Whether planned runs are missing because they were never begun."""
    return _lack(trials, NOT_YET_RUN) or ended_by_budget(trials)


def ended_by_budget(trials: tuple[Trials, Trials]) -> bool:
    """Whether planned runs are missing because the budget did not cover them."""
    return _lack(trials, OVER_BUDGET)


def _lack(trials: tuple[Trials, Trials], why: str) -> bool:
    return any(_is(why, cause.reason) for arm in trials for cause in arm.missing_reasons)


def _is(why: str, reason: str) -> bool:
    """Whether a reason is this one, alone or before a colon."""
    return reason.partition(":")[0] == why


def complete_blocks(runs: Runs, arms: tuple[str, str], *, keep_infra: bool) -> Runs:
    """The runs, with half blocks missing if the budget ended them: a block is both arms of a task
    and repeat, and what the money did not cover is not left out by chance.

    Where other arms ran beside the two, theirs do not matter: to drop a whole pair because a third
    run was not paid for would drop dear ones rather than cheap ones.
    """
    over = np.array(
        [
            outcome.failure == "missing" and _is(OVER_BUDGET, outcome.reason)
            for outcome in runs.outcomes
        ]
    )
    if not over.any():
        return runs
    codes = [runs.arms.index(arm) if arm in runs.arms else -1 for arm in arms]
    compared = np.isin(runs.arm, codes)
    if not over[runs.outcome[compared]].any():
        return runs
    counts = ~left_out(runs, keep_infra=keep_infra)[runs.outcome] & compared
    ours, theirs = (runs.key[counts & (runs.arm == code)] for code in codes)
    half = counts & ~np.isin(runs.key, np.intersect1d(ours, theirs))
    if not half.any():
        return runs
    reason = f"{OVER_BUDGET}: the other half of its block"
    return msgspec.structs.replace(
        runs,
        outcomes=(*runs.outcomes, Outcome(failure="missing", reason=reason)),
        outcome=np.where(half, len(runs.outcomes), runs.outcome),
    )


def lost_runs(trials: tuple[Trials, Trials]) -> str:
    """What the planned runs without a result are called."""
    kinds = [kind for kind in ("excluded", "missing") if any(getattr(arm, kind) for arm in trials)]
    return f"{' or '.join(kinds)} runs"


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """The planned runs of one arm, and its lines that do not count."""

    trials: Trials
    excluded: tuple[Excluded, ...]


def left_out(runs: Runs, *, keep_infra: bool) -> Flags:
    """For each outcome, whether no line with it counts; what is missing or broke off never does."""
    kinds = _ABSENT if keep_infra else (*_ABSENT, "infra")
    return np.array([outcome.failure in kinds for outcome in runs.outcomes])


def account(runs: Runs, arm: str, kept: Ints, lines: Ints) -> Account:
    """Settle the planned runs of an arm: `kept` are its rows that count, in order of their keys,
    and `lines` those that are left out, in any order."""
    ranks = {reason: at for at, reason in enumerate(sorted({o.reason for o in runs.outcomes}))}
    rank = np.array([ranks[outcome.reason] for outcome in runs.outcomes])
    missing = np.array([outcome.failure in _ABSENT for outcome in runs.outcomes])
    broke_off = np.array([outcome.failure == "interrupted" for outcome in runs.outcomes])
    # Of the lines of one planned run, the first in this order stands for it.
    code = runs.outcome[lines]
    order = np.lexsort((rank[code], ~missing[code], runs.key[lines]))
    code, key = code[order], runs.key[lines[order]]
    again = np.append(False, key[1:] == key[:-1])[: len(key)]
    has_run = _among(key, runs.key[kept])
    stands, absent, again_run = ~again & ~has_run, missing[code], broke_off[code] & has_run
    lost = tuple(_reasons(runs, code[stands & absent]))
    by_kind: dict[ExcludedKind, Iterable[Reason]] = {
        "infra": _reasons(runs, code[~absent]),
        "missing": lost,
        "interrupted": _reasons(runs, code[again_run]),
    }
    groups: list[tuple[ExcludedKind, str, int]] = [
        *(
            (kind, f"{kind}: {cause.reason}", cause.trials)
            for kind, causes in by_kind.items()
            for cause in causes
        ),
        ("missing", HAS_A_RUN, int((absent & has_run & ~again_run).sum())),
        ("missing", SAID_AGAIN, int((absent & again & ~has_run).sum())),
    ]
    return Account(
        trials=Trials(
            arm=arm,
            planned=len(kept) + int(stands.sum()),
            counted=len(kept),
            excluded=int((stands & ~absent).sum()),
            missing=int((stands & absent).sum()),
            interrupted=len({*key[again_run].tolist()}),
            excluded_reasons=tuple(_reasons(runs, code[stands & ~absent])),
            missing_reasons=lost,
        ),
        excluded=tuple(
            Excluded(kind=kind, reason=reason, arm=arm, runs=count)
            for kind, reason, count in groups
            if count
        ),
    )


def _among(keys: Ints, ordered: Ints) -> Flags:
    """Which of the keys are in an ordered column."""
    flags: Flags = np.append(ordered, -1)[np.searchsorted(ordered, keys)] == keys
    return flags


def _reasons(runs: Runs, codes: Ints) -> Iterator[Reason]:
    """How often each reason is given, in order of the reasons."""
    counts = np.bincount(codes, minlength=len(runs.outcomes)).tolist()
    trials = {runs.outcomes[code].reason: count for code, count in enumerate(counts) if count}
    return (Reason(reason=reason, trials=trials[reason]) for reason in sorted(trials))
