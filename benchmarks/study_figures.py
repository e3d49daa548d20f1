"""The sentences of docs/study.md: every figure in them, and what they claim without one."""

import math
import re
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise

import numpy as np

import twoarm
from benchmarks import other_readings as readings
from benchmarks.study_runs import (
    CANDIDATES,
    COST,
    MEASURES,
    NON_CACHE,
    TIME,
    TOKENS,
    Judged,
    Measure,
    change_of,
)
from twoarm.evidence.results import FEWEST_TASKS

# Each stands on the page once, with a figure in place of each name in braces.
SAID = (
    "ran {trials} trials, and",
    "{agents} agents (Codex, and Claude Code with Sonnet and with Opus) each did {tasks} tasks, "
    "{repeats} times in each arm",
    "The published table has {table_rows} rows.",
    "{idle} idle runs that were given no task",
    "and {preview} runs of a preview of the server's next version",
    "in more than {success} of runs",
    "`primed` takes {said_primed_time} less time, {said_primed_tokens} fewer tokens and costs "
    "{said_primed_cost} less",
    "`mcp` takes {said_mcp_time} less time, {said_mcp_tokens} more tokens, and costs "
    "{said_mcp_cost} more if",
    "{passed_primed} and {passed_mcp} of {each} runs passed, against {passed_shell} of `shell`",
    "`primed` takes {primed_time} less time ({primed_time_low} to {primed_time_high})",
    "`mcp` takes {mcp_time} less ({mcp_time_low} to {mcp_time_high})",
    "The article's {article_primed} and {article_mcp} come from the same runs",
    "compares the median of all {pooled} runs of each arm",
    "There are {real_tasks} tasks, neither {rows} nor {all_trials}: {readings} agents",
    "at least {fewest} tasks to say anything about others",
    "`mcp` costs {mcp_cost} more ({mcp_cost_low} to {mcp_cost_high})",
    "The {cold} is a price that nobody paid: {cached} of its input came",
    "All tokens go up by {all_tokens}, and",
    "In {blocks_primed} of the {of_blocks} pairs of task and agent for `primed`, and in "
    "{blocks_mcp} for `mcp`, every run",
    "which followed {gap_low} minutes to {gap_high} days later",
    "In {alike_tasks} of the {of_tasks} tasks both arms save time: `primed` {least_primed} to "
    "{most_primed}, `mcp` {least_mcp} to {most_mcp}. `hn_settings_deeplink`, whose",
    "`primed` saves only {odd_primed}, and `mcp` takes {odd_mcp} *longer*",
    '"{mix} faster" holds for a mix in which one task in {one_in} is',
    "between {cheapest} less and {dearest} more",
    "takes repeats for new tasks, {pairs} of them",
    "* **{bullet_rows} tasks** is",
    "* **{bullet_families} families** takes the {sample} tasks for a sample",
    "t interval over {values} values, which rests on a shape that {so_few} cannot show; twoarm has "
    "none below {least_families}.",
    "since there are {short_repeats} repeats, and it is about these {very_tasks} tasks alone",
    "time limit of {limit} seconds",
    "means of tokens ({zero_shell}, {zero_primed}, {zero_mcp}) and medians of cost ({usd_shell}, "
    "{usd_primed}, {usd_mcp}) come",
    "the longest of all {longest_of} runs the cheapest",
    "Two runs among {two_arms} move little",
)
# What the page says without a figure; `claims` says of each whether the runs show it.
CLAIMED = (
    "yet `primed`, one run behind, fails its success gate",
    "a caveat says that no gate looks at them",
    "**Nothing is promoted by the evidence.**",
    "NEXT says to interleave the arms",
    "That `primed` saves tokens without the cache, which every other column shows, is lost.",
    "Everything becomes clear: `mcp` uses fewer tokens without the cache, and costs more.",
    "with a caveat that the ids look like families",
    "`mcp` is then clearly faster for tasks like these.",
    "whether `mcp` is faster on others is open.",
    "one of `mcp` was killed at its time limit",
    "come out only if these are read as zero",
    "which makes the longest of all",
)
_WORDS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
# The task that is not like the others.
_ODD = "hn_settings_deeplink"


def figures(judged: Judged) -> dict[str, str]:
    """Every figure, by its name in a sentence."""
    return dict(
        (
            *_of_the_table(judged),
            *_of_the_article(judged),
            *_of_the_reports(judged),
            *_of_the_tasks(judged),
        )
    )


def _word(number: int) -> str:
    return _WORDS[number] if number < len(_WORDS) else f"{number:,}"


def _percent(ratio: float, digits: int = 1) -> str:
    """How far a ratio is from no change, whichever way that is."""
    return f"{abs(ratio - 1.0):.{digits}%}"


def _arm(judged: Judged, arm: str) -> list[readings.Row]:
    return [row for row in judged.rows if row["scenario"] == readings.ARMS[arm]]


def _of_the_table(judged: Judged) -> Iterator[tuple[str, str]]:
    """How many rows there are, and of what."""
    idle = sum(row["baseline_run"] == "True" for row in judged.table)
    agents = {row["agent_id"] for row in judged.rows}
    each = len(_arm(judged, "shell"))
    tasks, rows = len(judged.tasks), len(judged.apart["mcp"].tasks)
    for name in ("trials", "all_trials", "longest_of"):
        yield name, f"{len(judged.rows):,}"
    for name in ("agents", "readings"):
        count = _word(len(agents))
        yield name, count.capitalize() if name == "agents" else count
    for name in ("tasks", "real_tasks", "of_tasks", "sample", "values", "so_few", "very_tasks"):
        yield name, _word(tasks)
    yield "bullet_families", f"{tasks}"
    yield "one_in", _word(tasks)
    for name in ("rows", "of_blocks", "bullet_rows"):
        yield name, f"{rows}"
    for name in ("repeats", "short_repeats"):
        yield name, f"{each // rows}"
    for name in ("each", "pooled", "pairs"):
        yield name, f"{each}"
    yield "two_arms", f"{len(_arm(judged, 'shell')) + len(_arm(judged, 'mcp'))}"
    yield "table_rows", f"{len(judged.table):,}"
    yield "idle", f"{idle}"
    yield "preview", f"{len(judged.table) - len(judged.rows) - idle}"
    for name in ("fewest", "least_families"):
        yield name, _word(FEWEST_TASKS)
    yield "limit", f"{max(map(readings.seconds, judged.rows)):.0f}"


def _of_the_article(judged: Judged) -> Iterator[tuple[str, str]]:
    """What the article says, as it comes out of the table: nulls as zeros, all runs of an arm."""
    passed = {
        arm: sum(row["success"] == "True" for row in _arm(judged, arm)) for arm in readings.ARMS
    }
    for arm, count in passed.items():
        yield f"passed_{arm}", f"{count}"
    share = min(passed[arm] / len(_arm(judged, arm)) for arm in readings.ARMS)
    yield "success", f"{math.floor(100 * share)}%"
    medians = {
        arm: float(np.median([readings.seconds(row) for row in _arm(judged, arm)]))
        for arm in readings.ARMS
    }
    tokens, usd = (
        {arm: figure(judged.rows, arm, as_zero=True) for arm in readings.ARMS}
        for figure in (readings.mean_tokens, readings.median_cold_usd)
    )
    for arm in CANDIDATES:
        for name, of in (("time", medians), ("tokens", tokens), ("cost", usd)):
            yield f"said_{arm}_{name}", _percent(of[arm] / of["shell"], 0)
        yield f"article_{arm}", _percent(medians[arm] / medians["shell"], 0)
    yield "cold", _percent(usd["mcp"] / usd["shell"], 0)
    for arm in readings.ARMS:
        yield f"zero_{arm}", f"{tokens[arm] / 1000:.0f}K"
        yield f"usd_{arm}", f"${usd[arm]:.2f}"


def _of_the_reports(judged: Judged) -> Iterator[tuple[str, str]]:
    """What twoarm says on these very tasks, and which runs were made apart."""
    for arm, measure, name in (
        ("primed", TIME, "primed_time"),
        ("mcp", TIME, "mcp_time"),
        ("mcp", COST, "mcp_cost"),
    ):
        change = change_of(judged.alike[arm], measure, "these_tasks")
        assert change is not None
        yield name, _percent(change.estimate)
        # The smaller change comes first, whichever way it goes.
        ends = sorted((change.low, change.high), key=lambda ratio: abs(ratio - 1.0))
        for end, ratio in zip(("low", "high"), ends, strict=True):
            yield f"{name}_{end}", _percent(ratio).removesuffix("%")
        if name == "mcp_time":
            yield "mix", _percent(change.estimate)
    tokens = change_of(judged.alike["mcp"], TOKENS, "these_tasks")
    assert tokens is not None
    yield "all_tokens", _percent(tokens.estimate)
    cached, whole = (
        sum(float(row[name] or 0) for row in _arm(judged, "mcp") for name in names)
        for names in (
            ("cached_read_tokens",),
            ("uncached_input_tokens", "cached_read_tokens", "cache_write_tokens"),
        )
    )
    yield "cached", f"{cached / whole:.0%}"
    gaps = []
    for arm in CANDIDATES:
        apart = list(_gaps(judged, arm))
        gaps += apart
        yield f"blocks_{arm}", f"{len(apart)}"
    yield "gap_low", _word(round(min(gaps) / 60))
    yield "gap_high", _word(round(max(gaps) / 86_400))


def _gaps(judged: Judged, arm: str) -> Iterator[float]:
    """The seconds between the last start of one arm and the first of the other, where they do not
    overlap, for each task and agent."""
    starts: dict[tuple[str, str], dict[str, list[datetime]]] = {}
    for row in judged.rows:
        arms = starts.setdefault((row["task_id"], row["agent_id"]), {})
        arms.setdefault(row["scenario"], []).append(datetime.fromisoformat(row["ts_start"]))
    for arms in starts.values():
        both = sorted((arms[readings.ARMS[arm]], arms[readings.ARMS["shell"]]), key=min)
        for first, second in pairwise(both):
            if max(first) < min(second):
                yield (min(second) - max(first)).total_seconds()


def _of_the_tasks(judged: Judged) -> Iterator[tuple[str, str]]:
    """Each task on its own, and the one that is different."""
    others = [task for task in judged.tasks if task != _ODD]
    yield "alike_tasks", _word(len(others))
    for arm in CANDIDATES:
        saved = sorted(1.0 - _single(judged, task, arm) for task in others)
        yield f"least_{arm}", f"{saved[0]:.1%}".removesuffix("%")
        yield f"most_{arm}", f"{saved[-1]:.1%}"
        yield f"odd_{arm}", _percent(_single(judged, _ODD, arm))
    costs = sorted(_single(judged, task, "mcp", COST) for task in judged.tasks)
    yield "cheapest", _percent(costs[0])
    yield "dearest", _percent(costs[-1])


def _single(judged: Judged, task: str, arm: str, measure: Measure = TIME) -> float:
    change = change_of(judged.single[task, arm], measure, "these_tasks")
    assert change is not None
    return change.estimate


def claims(judged: Judged) -> dict[str, bool]:
    """What the page says without a figure, and whether the runs show it."""
    rows, mcp, primed = judged.rows, judged.alike["mcp"], judged.alike["primed"]
    saved = [
        readings.each_pair_a_task(rows, "primed", NON_CACHE.of),
        change_of(judged.apart["primed"], NON_CACHE, "tasks_like_these"),
        readings.over_families(rows, "primed", NON_CACHE.of),
        change_of(primed, NON_CACHE, "these_tasks"),
    ]
    paired = [
        readings.each_pair_a_task(rows, arm, measure.of)
        for arm in CANDIDATES
        for measure in MEASURES
    ]
    zeros, left_out = (
        [
            f"{figure(rows, arm, as_zero=as_zero):{style}}"
            for figure, style in ((readings.mean_tokens, ".3g"), (readings.median_cold_usd, ".2f"))
            for arm in ("shell", "mcp")
        ]
        for as_zero in (True, False)
    )
    without = sorted(
        (row["scenario"], row["exit_code"]) for row in rows if not row["uncached_input_tokens"]
    )
    killed = sorted((readings.ARMS[arm], code) for arm, code in (("mcp", "124"), ("shell", "1")))
    longest = max(rows, key=readings.seconds)
    shown = (
        any(gate.name == "success_rate" and gate.holds is False for gate in primed.gates),
        _warns(mcp, "ungated_worse"),
        all(report.promotion.verdict != "promote" for report in (primed, mcp)),
        all(any(step.code == "interleave_arms" for step in r.next) for r in (primed, mcp)),
        _open(readings.pooled(rows, "primed", NON_CACHE.of))
        and all(change is not None and change.high < 1.0 for change in saved),
        not any(map(_open, paired))
        and readings.each_pair_a_task(rows, "mcp", NON_CACHE.of).high < 1.0
        and readings.each_pair_a_task(rows, "mcp", COST.of).low > 1.0,
        _warns(judged.apart["mcp"], "family_not_named"),
        _is_faster(judged.apart["mcp"]),
        _open(readings.over_families(rows, "mcp", TIME.of)),
        without == killed,
        all(map(str.__ne__, zeros, left_out)),
        longest["scenario"] == readings.ARMS["mcp"] and not longest["uncached_input_tokens"],
    )
    return dict(zip(CLAIMED, shown, strict=True))


def _open(change: readings.Change) -> bool:
    return change.low <= 1.0 <= change.high


def _warns(report: twoarm.Report, code: str) -> bool:
    return any(caveat.code == code for caveat in report.caveats)


def _is_faster(report: twoarm.Report) -> bool:
    assert report.evidence is not None
    found = {finding.metric: finding.standing for finding in report.evidence.grade.findings}
    return found[TIME.metric] == "better"


def with_figures(page: str, found: dict[str, str]) -> str:
    """The page with the figures of the runs in its sentences."""
    for sentence in SAID:
        places = list(re.finditer(pattern_of(sentence), page))
        if len(places) != 1:
            raise SystemExit(f"the page says {len(places)} times, not once: {sentence}")
        names = re.findall(r"{(\w+)}", sentence)
        for name, group in reversed(list(zip(names, range(1, len(names) + 1), strict=True))):
            start, end = places[0].span(group)
            page = page[:start] + found[name] + page[end:]
    return page


def pattern_of(sentence: str) -> str:
    """What a sentence looks like on the page, on one line or more."""
    parts = re.split(r"{\w+}", sentence)
    return r"(\S+?)".join(re.escape(part).replace(r"\ ", r"\s+") for part in parts)
