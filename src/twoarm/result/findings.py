"""What the evidence says, in words: what is clear, what is not, and which tasks were broken."""

from collections.abc import Iterator

from twoarm.compare.decide import number_of_gates
from twoarm.evidence.interval import by_interval
from twoarm.evidence.results import Drop, Evidence, Finding, Interval, TestStanding
from twoarm.explain.failures import ArmFailures, Failures
from twoarm.result.promote import here
from twoarm.runs.endings import FAILURE_WORDS
from twoarm.runs.metric import BY_NAME, LABELS, SUCCESS, Metric
from twoarm.text.escape import counted, series
from twoarm.text.number_format import NOT_MEASURED, change, share
from twoarm.text.sentence import Name, Sentence, listed, say

# At or above this share of resamples with the same decision, new runs would hardly change it.
STABLE = 0.95
FAIRLY_STABLE = 0.80
# An arm with less than this share of the other's runs: their failures say little as counts.
_ALIKE = 0.90

# Clear by its test, but beside an interval that includes no difference.
DIFFERS = "differs"
# A test and an interval that also allows for tasks unlike these do not have to agree.
NOT_HOW_MUCH = "that it changes is clear; by how much is not"


def evidence_said(evidence: Evidence | None) -> Sentence:
    """The line that every report has."""
    if evidence is None:
        return say("not weighed (--no-evidence)")
    if not evidence.tasks:
        return say("none: no task was run in both arms")
    if evidence.grade.verdict == "too few tasks":
        return say("too few runs: even the largest difference could not be clear")
    where = ""
    if evidence.grade.scope == "these_tasks":
        where = f", on {here(evidence)}"
    elif any(finding.standing == "no clear difference" for finding in evidence.grade.findings):
        # What could still be is more than on these very tasks, which a promotion looks at.
        where = ", for tasks like these"
    at = ""
    if evidence.looks is not None:
        number = evidence.looks.looks.index(evidence.looks.after) + 1
        at = f"look {number} of {len(evidence.looks.looks)}: "
    return say("{}{}{}{}", at, _named_first(evidence), "; ".join(_clear(evidence)), where)


def _named_first(evidence: Evidence) -> str:
    """Which metric was named to be tested first, and what follows from that."""
    first = evidence.grade.primary
    if first is None:
        return ""
    label = BY_NAME[first].short
    named = evidence.grade.first
    if named is not None and named.standing == "no test":
        return f"{label}, named first, cannot be tested, so nothing else can be clear: "
    if named is not None and is_clear(evidence, first):
        way = "higher" if named.standing == "better" else "lower"
        return f"{label}, named first, is {way}: "
    if is_clear(evidence, first):
        return f"with {label} named first: "
    return f"{label}, named first, is not clear, so nothing else can be: "


def has_standing(evidence: Evidence, metric: str, *standings: str) -> bool:
    """Whether the verdict on a metric is one of these."""
    return any(
        finding.metric == metric and finding.standing in standings
        for finding in tests_shown(evidence)
    )


def tests_shown(evidence: Evidence) -> tuple[Finding, ...]:
    """What the tests of the gates' metrics show, and of another that was named first."""
    first = evidence.grade.first
    return evidence.grade.findings if first is None else (first, *evidence.grade.findings)


def is_clear(evidence: Evidence, metric: str) -> bool:
    """Whether the verdict calls a metric better or worse."""
    return has_standing(evidence, metric, "better", "worse")


def beside_interval(evidence: Evidence, metric: Metric) -> tuple[str, str]:
    """What is said of a metric beside its interval: by its adjusted test, if it has one; and why
    that is not what the interval shows, if it is not."""
    shown = _alone(evidence, metric)
    for finding in tests_shown(evidence):
        if finding.metric != metric.name:
            continue
        if finding.standing == "no clear difference" and shown in ("better", "worse"):
            return finding.standing, _why_unclear(evidence)
        if finding.standing in ("better", "worse") and shown == "no clear difference":
            return DIFFERS, NOT_HOW_MUCH
        return finding.standing, ""
    return shown, ""


def _alone(evidence: Evidence, metric: Metric) -> TestStanding:
    """What the interval of a metric shows, as if no other were tested."""
    delta = evidence.deltas[metric.name]
    limits: Interval | None = getattr(delta.change, evidence.headline)
    return by_interval(limits, 0.0 if delta.ratio is None else 1.0, metric.better)


def _why_unclear(evidence: Evidence) -> str:
    """Why a metric that is clear on its own is not in the verdict."""
    first = evidence.grade.primary
    if first is not None and not is_clear(evidence, first):
        return f"clear on its own, but {BY_NAME[first].short}, named first, is not"
    return f"clear on its own, not after allowing for {number_of_gates()}"


def _clear(evidence: Evidence) -> Iterator[str]:
    """What is clear, what is not clear and could still go either way, and what was not tested."""
    grade = evidence.grade
    clear: list[str] = []
    failing: dict[str, list[str]] = {}
    for finding in grade.findings:
        words = BY_NAME[finding.metric].words
        if words is not None and finding.standing in ("better", "worse"):
            why = _because(evidence, finding)
            (failing.setdefault(why, []) if why else clear).append(
                words[finding.standing == "worse"]
            )
    if clear:
        yield series(clear)
    for why, gains in failing.items():
        yield f"{series(gains)}, because {why}"
    perhaps: list[str] = []
    unclear: list[str] = []
    for finding in grade.findings:
        if finding.standing != "no clear difference":
            continue
        metric = BY_NAME[finding.metric]
        ends, leaning = _not_ruled_out(evidence, metric), _leaning(evidence, metric)
        if leaning:
            perhaps.append(f"{leaning} ({ends})")
        else:
            could = "" if unclear else "could be "
            unclear.append(metric.short + (f" ({could}{ends})" if ends else ""))
    if perhaps:
        yield f"perhaps {series(perhaps)}"
    if unclear:
        yield f"no clear difference in {series(unclear, 'or')}"
    untested = [finding.metric for finding in grade.findings if finding.standing == "no test"]
    same = [name for name in untested if evidence.deltas[name].mean.estimate == 0.0]
    if same:
        yield f"no difference at all in {series([BY_NAME[name].short for name in same], 'or')}"
    if len(untested) > len(same):
        yield f"{series([LABELS[name] for name in untested if name not in same])} not tested"


def _because(evidence: Evidence, finding: Finding) -> str:
    """What makes a gain that is not there among solved runs; nothing if it is."""
    solved = evidence.deltas[finding.metric].solved
    if solved is None or solved.survives is not False or finding.standing == "worse":
        return ""
    if solved.failed_runs == "long":
        return "the baseline's failed runs are long"
    return "failed runs are short"


def _leaning(evidence: Evidence, metric: Metric) -> str:
    """What a metric would be if it were the only one tested; nothing if it is unclear even then."""
    shown = _alone(evidence, metric)
    if metric.words is None or shown not in ("better", "worse"):
        return ""
    return metric.words[shown == "worse"]


def _not_ruled_out(evidence: Evidence, metric: Metric) -> str:
    """No clear difference is not equality: this is what it could still be."""
    delta = evidence.deltas[metric.name]
    interval: Interval | None = getattr(delta.change, evidence.headline)
    if interval is None:
        return ""
    return difference_range(interval, metric.unit) if delta.ratio is None else ratio_range(interval)


def difference_range(interval: Interval | None, unit: str) -> str:
    """Both ends of an interval, with its unit once."""
    if interval is None:
        return NOT_MEASURED
    low, high = change(interval.low, unit), change(interval.high, unit)
    for ending in (" points", " s"):
        if low.endswith(ending) and high.endswith(ending):
            low = low.removesuffix(ending)
    return f"{low} to {high}"


def ratio_range(interval: Interval | None) -> str:
    """Both ends of an interval of ratios, as changes in percent."""
    if interval is None:
        return NOT_MEASURED
    return f"{share(interval.low - 1.0)} to {share(interval.high - 1.0)}"


def stability_word(held: float) -> str:
    """What a share of resamples with the same decision means."""
    if held >= STABLE:
        return "stable"
    return "fairly stable" if held >= FAIRLY_STABLE else "could easily change"


def broken_said(evidence: Evidence) -> Sentence:
    """Whole tasks that the candidate broke, or how many still could."""
    broken, tasks = evidence.guard.broken, counted(evidence.tasks, "task")
    if broken.largest_drop is not None:
        return _dropped(evidence, broken.largest_drop)
    if broken.could_break is None:
        return say("not known: no task has enough successful baseline runs to tell")
    if evidence.tasks == 1:
        return say("not this task; what happens to others is not known")
    if broken.watched < evidence.tasks:
        if broken.watched == 1:
            return say("cannot tell: only one task passes often enough in the baseline")
        tasks = f"the {counted(broken.watched, 'task')} that pass often enough to tell"
    if evidence.headline == "these_tasks":
        return say("none of {} got worse; what happens to others is not known", tasks)
    share = f"{broken.could_break:.0%}"
    return say("none of {} got worse; up to {} of tasks like these still could", tasks, share)


def _dropped(evidence: Evidence, drop: Drop) -> Sentence:
    """The same where a task got worse; the largest drop is named, whatever the tests say of it."""
    broken, tasks = evidence.guard.broken, counted(evidence.tasks, "task")
    (ours, theirs), (of_ours, of_theirs) = drop.passed, drop.runs
    counts = f"{theirs} of {of_theirs} to {ours} of {of_ours}"
    largest = say("largest drop: {}, {}", Name(drop.task_id), counts)
    names = [task.task_id for task in broken.tasks]
    if names:
        chance = "" if broken.beyond_chance else ", which can be chance"
        # Of the one task that is named, the counts stand beside it.
        which = say("{}, {}", Name(drop.task_id), counts)
        if names != [drop.task_id]:
            which = say("{}; {}", listed(names, 3), largest)
        return say("{} of {}{}: {}", len(names), tasks, chance, which)
    if evidence.tasks == 1:
        return say("not for certain: {}; what happens to others is not known", counts)
    if has_standing(evidence, SUCCESS.name, "worse"):
        lower = broken.got_worse
        return say("none for certain; {}; success is lower in {} of {}", largest, lower, tasks)
    if broken.could_break is None:
        few = "no task passes often enough in the baseline to tell"
        return say("none for certain; {}; {}", largest, few)
    others = "what happens to others is not known"
    if evidence.headline == "tasks_like_these":
        others = f"up to {broken.could_break:.0%} of tasks like these still could break"
    if broken.watched < evidence.tasks:
        passing = "passes" if broken.watched == 1 else "pass"
        few = f"only {broken.watched} of {tasks} {passing} often enough to tell"
        return say("none for certain; {}; {}; {}", largest, few, others)
    return say("none of {}; {}; {}", evidence.tasks, largest, others)


def failed_said(failures: Failures, *, brief: bool = False) -> str | None:
    """How many runs of each arm failed, and why; or None.

    In brief it is not said of how many, unless the arms are far apart in that.
    """
    if not any(arm.failed for arm in failures.arms):
        return None
    fewer, more = sorted(arm.runs for arm in failures.arms)
    brief = brief and fewer >= _ALIKE * more
    return "; ".join(
        f"{role} {_failed(arm, brief=brief)}"
        for role, arm in zip(("candidate", "baseline"), failures.arms, strict=True)
        if arm.runs
    )


def _failed(arm: ArmFailures, *, brief: bool) -> str:
    runs = "" if brief else f" of {arm.runs:,}"
    if not arm.failed:
        return f"none{runs}"
    reasons = [f"{group.runs:,} {FAILURE_WORDS[group.reason]}" for group in arm.reasons]
    if len(reasons) == 1:
        reasons = [FAILURE_WORDS[arm.reasons[0].reason]]
    return f"{arm.failed:,}{runs} ({', '.join(reasons)})"


def always_said(failures: Failures, tasks: int) -> Iterator[Sentence]:
    """The tasks that come out the same in every run of both arms."""
    for names, word in ((failures.always_fail, "fail"), (failures.always_pass, "pass")):
        if names:
            yield say(
                "{} of {} {} in every run of both arms and {} nothing about success: {}",
                f"{len(names):,}",
                counted(tasks, "task"),
                word if len(names) > 1 else {"fail": "fails", "pass": "passes"}[word],
                "say" if len(names) > 1 else "says",
                listed(names),
            )
