"""What to do next, the most important first."""

import shlex
from collections.abc import Iterator

import msgspec

from twoarm.compare.comparison import Comparison
from twoarm.compare.decide import fails, lacks_repeats, number_of_gates
from twoarm.compare.trials import ended_by_budget, stopped_early
from twoarm.errors import Caveat
from twoarm.evidence.exclusions import one_sided
from twoarm.evidence.losses import OneSided
from twoarm.evidence.results import Evidence
from twoarm.evidence.solved import FEWEST_SOLVED
from twoarm.explain.failures import Failures
from twoarm.options import Options
from twoarm.result.findings import FAIRLY_STABLE
from twoarm.result.looked import score_alone
from twoarm.result.more_runs import more_runs
from twoarm.result.promote import Promotion
from twoarm.result.shortfall import RECORD_SCORES, before_promotion, unscored
from twoarm.result.step import Step, step
from twoarm.result.stopping import look_steps
from twoarm.runs.endings import FAILURE_CODES, FAILURE_WORDS, LIMITS
from twoarm.runs.metric import LABELS, SUCCESS
from twoarm.text.escape import counted, series
from twoarm.text.sentence import Name, Whole, listed


class Basis(msgspec.Struct, frozen=True, kw_only=True):
    """What advice rests on: the comparison, and what was concluded from it."""

    comparison: Comparison
    evidence: Evidence | None
    promotion: Promotion
    caveats: tuple[Caveat, ...]
    failures: Failures
    options: Options


def next_steps(basis: Basis) -> Iterator[Step]:
    """What to do next, the most important first."""
    comparison, evidence = basis.comparison, basis.evidence
    unfinished, alone = _unfinished(comparison), _other_arm(comparison)
    if unfinished is not None:
        yield unfinished
    if alone is not None:
        if unfinished is None:
            yield alone
        return
    yield from map(_find_out_why, _one_sided(basis))
    yield from _before_figures(basis.caveats)
    if stopped_early(comparison.screening.trials):
        # What a whole run would show is not known yet.
        return
    if not any(summary.successes for summary in comparison.summaries):
        yield _nothing_solved(basis.failures)
        return
    tied = all(gate.standing == "tied" for gate in comparison.gates)
    if tied:
        yield step(
            "claim_no_difference",
            "do not claim a difference: the {} are tied, and a tie counts as holding; nothing here "
            "says that {} helps",
            number_of_gates(),
            Name(comparison.arms.candidate),
        )
    if comparison.decision.kind == "insufficient":
        yield step(
            "measure_missing",
            "measure what is missing, then score again: without it there is no decision",
        )
    looks = None if evidence is None else evidence.looks
    over = looks is not None and bool(looks.stop or looks.stopped)
    if lacks_repeats(comparison.adequacy, comparison.gates) and not over:
        yield from before_promotion(comparison)
    if looks is not None:
        yield from look_steps(looks)
    yield from score_alone(comparison, evidence, basis.options)
    if evidence is not None and evidence.exclusions.could_flip and _unexplained(basis):
        yield step(
            "explain_exclusions",
            "find out why runs were excluded: counting them could change the decision",
        )
    if evidence is not None and evidence.on_shared_tasks != comparison.decision:
        yield step(
            "share_tasks",
            "run both arms on the same tasks: the ones they share give a different decision",
        )
    yield from _verdict(basis, tied)
    if evidence is not None and evidence.influence.decision_changes_without:
        yield _deciding([task.task_id for task in evidence.influence.decision_changes_without])


def _nothing_solved(failures: Failures) -> Step:
    """What to look at where no run succeeded: whatever ended all of them."""
    reasons = {group.reason for arm in failures.arms for group in arm.reasons}
    if reasons == {"crash"}:
        return step(
            "check_agent",
            "find out why the agent crashed, as it did in every run; of a run that twoarm made, "
            "`twoarm show` has what it printed",
        )
    if reasons and reasons <= LIMITS:
        return step(
            "raise_limits",
            "raise the limits: every run met one ({}), and none succeeded",
            series([FAILURE_WORDS[reason] for reason in FAILURE_CODES if reason in reasons]),
        )
    return step(
        "check_tasks",
        "check the tasks and the acceptance command: no run succeeded in either arm, and failing "
        "faster is not an improvement",
    )


def _unfinished(comparison: Comparison) -> Step | None:
    """Planned runs are missing: how to make them."""
    trials = comparison.screening.trials
    missing = sum(arm.missing for arm in trials)
    if not missing:
        return None
    left = f"{missing:,} of {counted(sum(arm.planned for arm in trials), 'planned run')}"
    left += " is missing" if missing == 1 else " are missing"
    studies = comparison.runs.studies
    study = next((study for study in studies if study.unfinished), None)
    if study is None and len(studies) == len(comparison.runs.inputs):
        # A look has counted on the runs as they are.
        return None
    where = "DIR" if study is None else study.path
    if study is not None and study.running:
        status = Whole(shlex.join(["twoarm", "run", "--status", where]))
        return step(
            "wait_for_run", "wait until the run has ended: {}; {} says how far it is", left, status
        )
    words = ["twoarm", "run", "--resume", where]
    if ended_by_budget(trials):
        words += ["--budget", "USD"]
    return step("finish_run", "finish the run with {}: {}", Whole(shlex.join(words)), left)


def _one_sided(basis: Basis) -> tuple[OneSided, ...]:
    """What one arm lost clearly more of: a promotion is withheld for it, or repeats are lacking."""
    comparison = basis.comparison
    if lacks_repeats(comparison.adequacy, comparison.gates):
        return one_sided(comparison)
    return basis.promotion.withheld


def _find_out_why(lost: OneSided) -> Step:
    """What to look into before anything is promoted."""
    if lost.metric is None:
        return step(
            "explain_losses",
            "find out why {} lost so many more runs: they may be the bad ones",
            Name(lost.arm),
        )
    return step(
        "explain_missing_values",
        "find out why {} lacks {} so much more often: it may be in the bad runs",
        Name(lost.arm),
        LABELS[lost.metric],
    )


def _unexplained(basis: Basis) -> bool:
    """Whether runs were excluded, and no other step asks why."""
    asked = any(lost.metric is None for lost in _one_sided(basis))
    return not asked and any(arm.excluded for arm in basis.comparison.screening.trials)


def _other_arm(comparison: Comparison) -> Step | None:
    """What has to be run before anything can be compared."""
    empty = [summary.arm for summary in comparison.summaries if not summary.runs]
    if empty:
        return step(
            "run_arm", "run {} on the same tasks: no run of it counts so far", listed(empty)
        )
    if not any(task.candidate.runs and task.baseline.runs for task in comparison.tasks):
        return step("share_tasks", "run both arms on the same tasks: so far they share none")
    return None


# What to do about a limit that decides success, or a change that is hardly used, by the code of the
# caveat that says so.
_BEFORE_FIGURES = {
    "limits_decide_success": step(
        "raise_limits",
        "raise the limits and run again: so far they decide success more than the change does",
    ),
    "uptake_never": step(
        "explain_no_use",
        "find out why the change was never used: until then this compares noise with noise",
    ),
    "uptake_rare": step(
        "explain_rare_use",
        "find out why the change was used in less than half of the runs",
    ),
    "uptake_failed": step("explain_failed_use", "find out why uses of the change fail"),
}


def _before_figures(caveats: tuple[Caveat, ...]) -> Iterator[Step]:
    """What has to be looked into before the figures are."""
    for caveat in caveats:
        if caveat.code in _BEFORE_FIGURES:
            yield _BEFORE_FIGURES[caveat.code]


def _unlike(basis: Basis) -> Iterator[Step]:
    """What else differed between the arms, and might explain the whole difference."""
    evidence = basis.evidence
    if evidence is not None and evidence.order.in_separate_blocks:
        yield step(
            "interleave_arms",
            "run them again with the arms interleaved: here one ran after the other, and whatever "
            "changed in between looks like an effect",
        )
    if any(caveat.code == "different_models" for caveat in basis.caveats):
        yield step(
            "use_one_model",
            "use one model in both arms: otherwise its effect cannot be told from that of the "
            "change",
        )


def _where_it_fails(comparison: Comparison) -> Step:
    """Where the failed gates come from."""
    failed = [gate.rule for gate in comparison.gates if gate.holds is False]
    if not failed or any(rule.metric is SUCCESS for rule in failed):
        return step(
            "look_at_tasks",
            "look at the tasks with lower success: the full report lists them first",
        )
    return step(
        "look_at_tasks",
        "look at the tasks whose {} rose: the full report has the change of every task",
        series([rule.metric.label for rule in failed], "or"),
    )


def _deciding(tasks: list[str]) -> Step:
    """The tasks without which the decision would be different."""
    code = "look_at_deciding_tasks"
    if len(tasks) == 1:
        return step(code, "look at {}: dropping it changes the decision", Name(tasks[0]))
    if len(tasks) == 2:
        template = "look at {} and {}: dropping either one changes the decision"
        return step(code, template, *map(Name, tasks))
    return step(
        code,
        "look at {} and {} more: dropping any one of them changes the decision",
        Name(tasks[0]),
        len(tasks) - 1,
    )


def _verdict(basis: Basis, tied: bool) -> Iterator[Step]:
    """What the promotion means, and where more runs would help if it is in doubt."""
    evidence, verdict = basis.evidence, basis.promotion.verdict
    if evidence is not None and unscored(basis.comparison, basis.options):
        yield RECORD_SCORES
        return
    by_gates = basis.options.promote_by == "gates"
    unlike, harm = tuple(_unlike(basis)), tuple(_harm(basis))
    yield from unlike
    yield from harm
    graded = evidence.grade.verdict if evidence is not None else None
    shaky = graded == "too few tasks"
    if basis.promotion.withheld:
        return
    if verdict == "do not promote":
        yield from _not_promoted(basis, bool(harm))
        shaky = shaky or (graded == "no clear difference" and not _equal(basis))
    elif not by_gates and verdict == "promote":
        if not harm and not unlike:
            yield _promoted(basis)
        yield from _although(basis)
    elif not by_gates:
        shaky = graded not in ("baseline better", "trade-off")
        if not shaky:
            yield _where_it_fails(basis.comparison)
    elif verdict == "promote" and evidence is not None and not tied:
        shaky = True
        if graded != "candidate better":
            yield step(
                "get_more_runs",
                "get more runs before telling anyone: the evidence does not show a gain",
            )
        elif harm or unlike:
            shaky = False
        elif (
            evidence.stability is None
            or evidence.stability.decision_share < FAIRLY_STABLE
            or any(other.by == "evidence" for other in basis.promotion.others)
        ):
            yield step(
                "promote_if_cheap",
                "promote if being wrong is cheap; otherwise get more runs first",
            )
        else:
            shaky = False
            candidate = Name(basis.comparison.arms.candidate)
            yield step("promote", "promote {}: the gates and the evidence agree", candidate)
    # What was run in blocks has to be run again, however many runs there are.
    if evidence is not None and evidence.order.in_separate_blocks:
        shaky = shaky and graded != "candidate better"
    if shaky and evidence is not None:
        yield from more_runs(evidence, basis.options)


def _promoted(basis: Basis) -> Step:
    """The step that a promotion by the evidence or the margins ends in, with the reason."""
    why = "the evidence shows a gain, and the guard finds nothing against it"
    if basis.options.promote_by == "margin":
        why = "it is within the margins, and better somewhere"
    elif basis.options.guard == "none":
        why = "the evidence shows a gain; the guard is off"
    assert basis.evidence is not None
    provided = "" if basis.evidence.order.known else " if the arms ran side by side"
    candidate = Name(basis.comparison.arms.candidate)
    return step("promote", "promote {}{}: {}", candidate, provided, why)


def _harm(basis: Basis) -> Iterator[Step]:
    """Harm that no gate looks at, and that calls for a second look before promoting."""
    evidence = basis.evidence
    if evidence is None or basis.comparison.decision.kind == "baseline":
        return
    broken, paid = evidence.guard.broken, evidence.guard.paid
    yield from _failing_fast(evidence, basis.comparison)
    if broken.beyond_chance:
        yield step(
            "look_at_broken_tasks",
            "look at {} before anything else: the candidate breaks {}",
            listed([task.task_id for task in broken.tasks], 3),
            "it" if len(broken.tasks) == 1 else "them",
        )
    if paid.worse and paid.metric is not None:
        higher = LABELS[paid.metric]
        if any(finding.standing == "better" for finding in evidence.grade.findings):
            yield step(
                "weigh_cost", "decide whether the gain is worth it: {} is clearly higher", higher
            )
        else:
            yield step(
                "keep_baseline",
                "keep {}: nothing is clearly better, and {} is clearly higher",
                Name(basis.comparison.arms.baseline),
                higher,
            )


def _failing_fast(evidence: Evidence, comparison: Comparison) -> Iterator[Step]:
    """Gains that are not there among solved runs, or that cannot be checked."""
    arms = comparison.arms
    gains = [entry.metric for entry in evidence.grade.findings if entry.standing == "better"]
    survives = evidence.guard.gain_survives
    if survives is False:
        solved = evidence.deltas[gains[0]].solved
        long = solved is not None and solved.failed_runs == "long"
        yield step(
            "look_at_failed_runs",
            "look at the failed runs of {}: they are {}, and most of the gain comes from that",
            Name(arms.baseline if long else arms.candidate),
            "long" if long else "short",
        )
    elif survives is None and gains and evidence.guard.successes and _any_failed(comparison):
        yield step(
            "add_solved_tasks",
            "add tasks that both arms solve: with fewer than {}, nobody can tell whether the gain "
            "is more than failing fast",
            FEWEST_SOLVED,
        )


def _any_failed(comparison: Comparison) -> bool:
    return any(summary.successes < summary.runs for summary in comparison.summaries)


def _equal(basis: Basis) -> bool:
    evidence = basis.evidence
    by_margin = basis.options.promote_by == "margin"
    return by_margin and evidence is not None and evidence.margin.verdict == "no difference"


def _not_promoted(basis: Basis, harm: bool) -> Iterator[Step]:
    comparison = basis.comparison
    graded = basis.evidence.grade.verdict if basis.evidence else None
    by_gates = basis.options.promote_by == "gates"
    if comparison.decision.kind == "baseline" or (not by_gates and graded == "baseline better"):
        yield step("keep_baseline", "keep {}", Name(comparison.arms.baseline))
    elif _equal(basis):
        yield step(
            "treat_as_equal",
            "treat the arms as equal: they differ by less than the margins, if at all",
        )
    elif graded == "no clear difference":
        yield step(
            "claim_nothing",
            "do not read too much into a mixed result: the evidence shows no clear difference"
            if by_gates
            else "do not claim a difference, nor that there is none: the runs show neither",
        )
    elif not harm:
        yield _where_it_fails(comparison)
    if not by_gates:
        yield from _although(basis)


def _although(basis: Basis) -> Iterator[Step]:
    """What the gates say, where they disagree with the verdict."""
    comparison = basis.comparison
    promoted = basis.promotion.verdict == "promote"
    if promoted == (comparison.decision.kind == "candidate"):
        return
    failed = fails(comparison.gates)
    alone = [other.verdict for other in basis.promotion.others if other.by == "gates"]
    if promoted and failed:
        yield step("note_gates", "note that {} {}", Name(comparison.arms.candidate), failed)
    elif alone == ["promote"]:
        yield step("note_gates", "the gates alone would promote it: all {} hold", number_of_gates())
