"""What to do next, the most important first."""

from collections.abc import Iterator

from twoarm.compare.decide import fails, lacks_repeats, number_of_gates
from twoarm.evidence.caveats import FEW_REPEATS_HELP
from twoarm.evidence.means import tasks_within
from twoarm.evidence.results import FUTILE, Evidence, Looks, NextRuns, OneSided, fewest_tasks
from twoarm.result.analysis import Analysis
from twoarm.runs.metric import DURATION, LABELS, SUCCESS
from twoarm.text.escape import counted, series
from twoarm.text.number_format import dollars
from twoarm.text.sentence import Name, Sentence, listed, say

# From this share of resamples with the same decision on, new runs would hardly change it.
STABLE = 0.95
FAIRLY_STABLE = 0.80
# Above this share of run-to-run noise, more repeats are the cheaper way.
REPEATS_HELP = 0.5


def next_steps(analysis: Analysis) -> Iterator[Sentence]:
    """What to do next, the most important first."""
    unfinished, alone = _unfinished(analysis), _other_arm(analysis)
    if unfinished is not None:
        yield unfinished
    if alone is not None:
        if unfinished is None:
            yield alone
        return
    yield from map(_one_sided, analysis.promotion.withheld)
    yield from _unused(analysis)
    if not any(summary.successes for summary in analysis.arm_summaries):
        yield say(
            "check the tasks and the acceptance command: no run succeeded in either arm, and to "
            "fail faster is no gain"
        )
        return
    evidence = analysis.evidence
    tied = all(gate.standing == "tied" for gate in analysis.gates)
    if tied:
        yield say(
            "do not claim a difference: the {} are tied, and a tie counts as holding; nothing here "
            "says that {} helps",
            number_of_gates(),
            Name(analysis.candidate),
        )
    if analysis.decision.kind == "insufficient":
        yield say("measure what is missing, then score again: without it there is no decision")
    if lacks_repeats(analysis.adequacy, analysis.gates):
        yield from _lacking(analysis)
    if evidence is not None and evidence.looks is not None:
        yield from _looks(evidence.looks)
    if evidence is not None and evidence.exclusions.could_flip and _unexplained(analysis):
        yield say("find out why runs were excluded: counting them could change the decision")
    if evidence is not None and evidence.on_shared_tasks != analysis.decision:
        yield say("run both arms on the same tasks: the ones they share give a different decision")
    yield from _verdict(analysis, tied)
    if evidence is not None and evidence.influence.decision_changes_without:
        yield _look_at([one.task_id for one in evidence.influence.decision_changes_without])


def _unfinished(analysis: Analysis) -> Sentence | None:
    """That planned runs are missing, and how to make them."""
    missing = sum(arm.missing for arm in analysis.trials)
    if not missing:
        return None
    planned = counted(sum(arm.planned for arm in analysis.trials), "planned run")
    return say(
        "finish the run with {}: {} of {} {} missing",
        Name("twoarm run --resume DIR"),
        f"{missing:,}",
        planned,
        "is" if missing == 1 else "are",
    )


def _one_sided(found: OneSided) -> Sentence:
    """What has to be looked into before a promotion that was withheld."""
    if found.metric is None:
        return say(
            "find out why {} lost so many more runs: they may be the bad ones", Name(found.arm)
        )
    return say(
        "find out why {} lacks {} so much more often: it may be in the bad runs",
        Name(found.arm),
        LABELS[found.metric],
    )


def _unexplained(analysis: Analysis) -> bool:
    """Whether runs were excluded, and no other step asks why."""
    asked = any(one.metric is None for one in analysis.promotion.withheld)
    return not asked and any(arm.excluded for arm in analysis.trials)


def _other_arm(analysis: Analysis) -> Sentence | None:
    """What has to be run before anything can be compared."""
    empty = [summary.arm for summary in analysis.arm_summaries if not summary.runs]
    if empty:
        return say("run {} on the same tasks: no run of it counts so far", listed(empty))
    if not any(task.candidate.runs and task.baseline.runs for task in analysis.tasks):
        return say("run both arms on the same tasks: so far they share none")
    return None


def _unused(analysis: Analysis) -> Iterator[Sentence]:
    """A change that is not used has to be looked into before its figures are."""
    said = {
        "uptake_never": "find out why the change was never used: until then this compares noise "
        "with noise",
        "uptake_rare": "find out why the change was used in less than half of the runs",
        "uptake_failed": "find out why uses of the change fail",
    }
    for caveat in analysis.caveats:
        if caveat.code in said:
            yield say(said[caveat.code])


def _lacking(analysis: Analysis) -> Iterator[Sentence]:
    """What to run or to record before a promotion."""
    runs = {
        (task.task_id, arm): one.runs
        for task in analysis.tasks
        for arm, one in (
            (analysis.candidate, task.candidate),
            (analysis.baseline, task.baseline),
        )
    }
    unrun: dict[str, list[str]] = {}
    unmeasured: dict[str, list[str]] = {}
    few: set[str] = set()
    for entry in analysis.adequacy.below_minimum:
        if not runs[entry.task_id, entry.arm]:
            kind, key = unrun, entry.arm
        elif not entry.repeats:
            kind, key = unmeasured, entry.metric
        else:
            few.add(entry.task_id)
            continue
        tasks = kind.setdefault(key, [])
        if entry.task_id not in tasks:
            tasks.append(entry.task_id)
    for arm, tasks in unrun.items():
        them = "it" if len(tasks) == 1 else "them"
        yield say("run {} with {}: only the other arm has {}", listed(tasks, 3), Name(arm), them)
    for metric, tasks in unmeasured.items():
        yield say("record {} for {}: an arm has none", LABELS[metric], listed(tasks, 3))
    if few:
        yield say(
            "run more repeats: a promotion needs at least {} of every task in both arms ({} "
            "below that)",
            analysis.adequacy.minimum_repeats,
            counted(len(few), "task"),
        )


def _unlike(analysis: Analysis) -> Iterator[Sentence]:
    """What else differed between the arms, and could be all there is to the difference."""
    evidence = analysis.evidence
    if evidence is not None and evidence.order.in_separate_blocks:
        yield say(
            "run them again with the arms interleaved: here one ran after the other, and whatever "
            "changed in between looks like an effect"
        )
    if any(caveat.code == "different_models" for caveat in analysis.caveats):
        yield say(
            "use one model in both arms: otherwise its effect cannot be told from that of the "
            "change"
        )


def _hurt(analysis: Analysis) -> Sentence:
    """Where the failed gates come from."""
    failed = [gate.rule for gate in analysis.gates if gate.holds is False]
    if not failed or any(rule.metric is SUCCESS for rule in failed):
        return say("look at the tasks that were hurt: the full report lists them first")
    return say(
        "look at the tasks whose {} rose: the full report has the change of every task",
        series([rule.metric.label for rule in failed], "or"),
    )


def _looks(looks: Looks) -> Iterator[Sentence]:
    """Whether to go on to the next look."""
    if looks.stop == "futility":
        yield say(
            "stop if you like: even after all {} repeats a verdict is unlikely (below {}; this "
            "advice is not binding)",
            looks.r_max,
            f"{FUTILE:.0%}",
        )
    elif looks.stop is not None:
        yield say("stop: {} is clear after {} of {} repeats", looks.stop, looks.after, looks.r_max)
    elif looks.after < looks.r_max:
        following = next(look for look in looks.looks if look > looks.after)
        yield say("run on to the next look, after {} repeats", following)


def _look_at(tasks: list[str]) -> Sentence:
    if len(tasks) == 1:
        return say("look at {}: dropping it changes the decision", Name(tasks[0]))
    if len(tasks) == 2:
        return say("look at {} and {}: dropping either one changes the decision", *map(Name, tasks))
    return say(
        "look at {} and {} more: dropping any one of them changes the decision",
        Name(tasks[0]),
        len(tasks) - 1,
    )


def _verdict(analysis: Analysis, tied: bool) -> Iterator[Sentence]:
    """What the promotion means, and where more runs would help if it is in doubt."""
    evidence, verdict = analysis.evidence, analysis.promotion.verdict
    unlike, harm = tuple(_unlike(analysis)), tuple(_harm(analysis))
    yield from unlike
    yield from harm
    graded = evidence.grade.verdict if evidence is not None else None
    shaky = graded == "too few tasks"
    if analysis.promotion.withheld:
        return
    if verdict == "do not promote":
        yield from _not_promoted(analysis, bool(harm))
        shaky = shaky or (graded == "no clear difference" and not _equal(analysis))
    elif analysis.options.promote_by != "gates" and verdict == "promote":
        yield from _although(analysis)
    elif analysis.options.promote_by != "gates":
        shaky = graded not in ("baseline better", "trade-off")
        if not shaky:
            yield _hurt(analysis)
    elif verdict == "promote" and evidence is not None and not tied:
        shaky = True
        if graded != "candidate better":
            yield say("get more runs before telling anyone: the evidence does not show a gain")
        elif harm or unlike:
            shaky = False
        elif evidence.stability is None or evidence.stability.decision_share < FAIRLY_STABLE:
            yield say("promote if being wrong is cheap; otherwise get more runs first")
        else:
            shaky = False
            yield say("promote {}: the gates and the evidence agree", Name(analysis.candidate))
    if shaky and evidence is not None:
        yield from _more_runs(analysis, evidence)


def _harm(analysis: Analysis) -> Iterator[Sentence]:
    """What no gate looks at, and should keep a reader from promoting without a second look."""
    evidence = analysis.evidence
    if evidence is None or analysis.decision.kind == "baseline":
        return
    broken, paid = evidence.guard.broken, evidence.guard.paid
    if broken.beyond_chance:
        yield say(
            "look at {} before anything else: the candidate breaks {}",
            listed([one.task_id for one in broken.tasks], 3),
            "it" if len(broken.tasks) == 1 else "them",
        )
    if paid.worse and paid.metric is not None:
        higher = LABELS[paid.metric]
        if any(finding.standing == "better" for finding in evidence.grade.findings):
            yield say("decide whether the gain is worth it: {} is clearly higher", higher)
        else:
            yield say(
                "keep {}: nothing is clearly better, and {} is clearly higher",
                Name(analysis.baseline),
                higher,
            )


def _equal(analysis: Analysis) -> bool:
    evidence = analysis.evidence
    by_margin = analysis.options.promote_by == "margin"
    return by_margin and evidence is not None and evidence.margin.verdict == "no difference"


def _not_promoted(analysis: Analysis, harm: bool) -> Iterator[Sentence]:
    graded = analysis.evidence.grade.verdict if analysis.evidence else None
    by_gates = analysis.options.promote_by == "gates"
    if analysis.decision.kind == "baseline" or (not by_gates and graded == "baseline better"):
        yield say("keep {}", Name(analysis.baseline))
    elif _equal(analysis):
        yield say("treat the arms as equal: they differ by less than the margins, if at all")
    elif graded == "no clear difference":
        yield (
            say("do not read too much into a mixed result: the evidence shows no clear difference")
            if by_gates
            else say("do not claim a difference, nor that there is none: the runs show neither")
        )
    elif not harm:
        yield _hurt(analysis)
    if not by_gates:
        yield from _although(analysis)


def _although(analysis: Analysis) -> Iterator[Sentence]:
    """What the gates say, where it is something else."""
    promoted = analysis.promotion.verdict == "promote"
    if promoted == (analysis.decision.kind == "candidate"):
        return
    failed = fails(analysis.gates)
    if promoted and failed:
        yield say("note that {} {}", Name(analysis.candidate), failed)
    elif not failed:
        yield say("the gates alone would promote it: all {} hold", number_of_gates())


def _part(share: float) -> str:
    return f"about {share:.0%}" if share < 0.95 else "nearly all"


def _more_runs(analysis: Analysis, evidence: Evidence) -> Iterator[Sentence]:
    """Where more runs would help: new tasks, or repeats of these."""
    variance, options = evidence.variance, analysis.options
    least = tasks_within(options.margin_success, evidence.level)
    if evidence.tasks < fewest_tasks(analysis.options.level):
        yield say(
            "add tasks: with {} nothing can be said about others; it takes at least {}",
            counted(evidence.tasks, "task"),
            fewest_tasks(analysis.options.level),
        )
        if evidence.next_runs is not None:
            yield _planned(evidence.next_runs)
    elif options.promote_by == "margin" and evidence.tasks < least:
        yield say(
            "add tasks: to rule out a drop of {} points for tasks like these takes at least {}, "
            "even if nothing fails",
            f"{options.margin_success * 100:g}",
            least,
        )
    elif evidence.grade.verdict == "candidate better" and options.promote_by == "evidence":
        yield say("add repeats: they narrow the range of success on these tasks")
    elif evidence.next_runs is not None:
        yield _planned(evidence.next_runs)
    elif _is_open(evidence, SUCCESS.name) and not _is_open(evidence, DURATION.name):
        yield say("add tasks: whether success changes is what these runs leave open")
    elif variance is not None and variance.repeats_share <= REPEATS_HELP:
        much = ", not" if variance.repeats_share < FEW_REPEATS_HELP else " rather than"
        yield say(
            "add tasks{} repeats: {} of the uncertainty about duration is between tasks",
            much,
            _part(variance.tasks_share),
        )
    elif variance is not None:
        yield say(
            "add repeats: {} of the uncertainty about duration is run-to-run noise",
            _part(variance.repeats_share),
        )


def _is_open(evidence: Evidence, metric: str) -> bool:
    return any(
        finding.metric == metric and finding.standing == "no clear difference"
        for finding in evidence.grade.findings
    )


def _planned(wanted: NextRuns) -> Sentence:
    """How many more runs would show a change that matters, and what they cost."""
    size = f"{abs(wanted.detect) * 100:.3g}"
    change = f"{size}-point" if wanted.metric == SUCCESS.name else f"{size}%"
    repeats = counted(wanted.repeats, "repeat")
    more = (
        counted(wanted.more_tasks, "more task")
        if wanted.more_tasks
        else counted(wanted.more_runs, "more run")
    )
    cost = "" if wanted.usd is None else f" for about {dollars(wanted.usd)}"
    return say(
        "to see a {} change in {} four times out of five: {} x {}, {}{}",
        change,
        LABELS[wanted.metric].replace("non-cache ", ""),
        counted(wanted.tasks, "task"),
        repeats,
        more,
        cost,
    )
