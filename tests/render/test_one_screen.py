"""The default report: one screen at any width, the verdict first, and the same everywhere."""

import json
import re
from collections.abc import Callable
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

import msgspec
import pytest

import twoarm as package
from tests.conftest import both, lines, run, twoarm
from tests.evidence.test_solved_runs import dying
from tests.render.test_golden import mixed
from tests.support.failed_runs import budget_runs
from tests.support.formula_runs import jitter, spread, suite
from tests.support.planned_runs import missing
from twoarm import Report
from twoarm.options import Options
from twoarm.render.summary import summarize
from twoarm.render.text import Look, render
from twoarm.result.promote import promote
from twoarm.text.escape import columns, visible

WIDTHS = (60, 80, 100, 120)
MODES = ("gates", "evidence", "margin")
MOST_LINES = 24
LABELS = ("PROMOTE", "DECISION", "EVIDENCE", "FAILED", "BROKEN", "NEXT", "CAVEATS")
LONG = ("x" * 300, "y" * 300)
SPACED = ("a name of many words " * 15, "another name of many words " * 11)
WHY = ("lost: " + "no disk " * 20, "interrupted: SIGKILL", "not yet run", "no word of ours")
WIDE_WORDS = ("漢 字 " * 12 + "a", "字 漢 " * 12 + "b")


def demo() -> list[dict[str, Any]]:
    return [json.loads(line) for line in twoarm("demo", "--print").out.splitlines()]


def renamed(
    runs: list[dict[str, Any]], arms: tuple[str, str], tasks: Callable[[str], str] = str
) -> list[dict[str, Any]]:
    names = dict(zip(("with_skelly", "without_skelly"), arms, strict=True))
    return [one | {"arm": names[one["arm"]], "task_id": tasks(one["task_id"])} for one in runs]


def troubled() -> list[dict[str, Any]]:
    """As many things to say as possible: exclusions, holes, other models, arms one by one."""
    runs = jitter(9, 6, (0, 1))
    for number, one in enumerate(runs):
        ours = one["arm"] == "with_skelly"
        one["model"] = "new" if ours else "old"
        one["agent"] = "one" if ours else "other"
        one["started_at_utc"] = f"2026-11-{1 if ours else 2:02}T10:{number % 60:02}:00Z"
        if number % 9 == 0:
            one["total_cost_usd"] = None
        if number % 11 == 0:
            one["failure"], one["failure_reason"] = "infra", f"sandbox {number} lost"
    return [*runs, run("only-here", "with_skelly", 1), run("t0", "third", 1)]


def unfinished() -> list[dict[str, Any]]:
    """Runs that were lost, interrupted, not made yet, or broken off for a reason of their own."""
    runs = [*troubled(), *(missing("t0", "third", repeat) for repeat in (2, 3))]
    for number, one in enumerate(runs):
        if number % 5 == 0:
            why = WHY[number // 5 % len(WHY)]
            runs[number] = missing(one["task_id"], one["arm"], one["repeat"], why)
    return runs


def lopsided() -> list[dict[str, Any]]:
    """The candidate lost every other run, and used the change in few others."""
    runs = spread(12, 12, 0.5)
    for number, one in enumerate(runs):
        one["uptake_count"] = int(one["arm"] == "with_skelly" and number % 3 == 0)
        if one["arm"] == "with_skelly" and one["repeat"] % 2:
            runs[number] = missing(one["task_id"], one["arm"], one["repeat"], "lost: all of it")
    return runs


def with_scores(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A figure more, which no gate looks at."""
    return [one | {"score": None if one.get("failure") else float(one["success"])} for one in runs]


def large() -> list[dict[str, Any]]:
    """Figures as wide as they come, and a zero, which allows no ratio."""
    return [
        run(
            f"t{task}",
            arm,
            repeat,
            duration_seconds=(9e15 - 7e12 * task - 1e11 * repeat) * (arm == "with_skelly"),
            input_tokens=(9 * 10**15 - 10**13 * task * repeat) * (arm != "with_skelly"),
            total_cost_usd=8e15 / (task + repeat) * (arm == "with_skelly"),
        )
        for task in range(8)
        for repeat in range(1, 6)
        for arm in ("with_skelly", "without_skelly")
    ]


RUNS: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "demo": demo,
    "scored": lambda: with_scores(demo()),
    "scored and unfinished": lambda: with_scores(unfinished()),
    "mixed": mixed,
    "few": both,
    "nothing": lambda: [run(total_cost_usd=None, input_tokens=None)],
    "one task": lambda: spread(1, 6, 0.5),
    "clean": lambda: spread(25, 5, 0.5),
    "dying fast": dying,
    "a broken task": lambda: [
        one | {"success": (one["arm"], one["task_id"]) != ("with_skelly", "t7")}
        for one in spread(25, 5, 0.5)
    ],
    "500 tasks": lambda: spread(500, 2, 0.9),
    "long arms": lambda: renamed(demo(), LONG, lambda task: task * 20),
    "arms of many words": lambda: renamed(troubled()[:-1], SPACED, lambda task: f"{task} x " * 50),
    "wide letters": lambda: renamed(
        demo(), ("漢字" * 60, "字漢" * 60), lambda task: "課" * 90 + task
    ),
    "wide words": lambda: renamed(demo(), WIDE_WORDS, lambda task: "課 題 " * 8 + task),
    "better": lambda: spread(8, 5, 0.5),
    "better in many tasks": lambda: spread(60, 5, 0.5),
    "breaks tasks": lambda: [
        one | {"success": one["arm"] != "with_skelly" or one["task_id"] not in ("t1", "t4")}
        for one in spread(12, 10, 0.5)
    ],
    "limits decide": budget_runs,
    "worse": lambda: spread(8, 5, 2.0),
    "noise": lambda: jitter(8, 5, (0, 1)),
    "other noise": lambda: jitter(8, 5, (1, 0)),
    "too few repeats": lambda: spread(8, 4, 0.5),
    "tied": suite,
    "no success": lambda: suite(success=False, duration_seconds=1),
    "troubled": troubled,
    "large": large,
    "unfinished": unfinished,
    "lost on one side": lopsided,
    "one arm missing": lambda: [
        missing(one["task_id"], one["arm"], one["repeat"]) if one["arm"] == "with_skelly" else one
        for one in spread(8, 5, 0.5)
    ],
    "all missing": lambda: [missing("t", arm, 1) for arm in ("with_skelly", "without_skelly")],
}
ARMS = {
    "long arms": LONG,
    "arms of many words": SPACED,
    "wide letters": ("漢字" * 60, "字漢" * 60),
    "wide words": WIDE_WORDS,
    "troubled": ("with_skelly", "without_skelly"),
    "unfinished": ("with_skelly", "without_skelly"),
    "scored and unfinished": ("with_skelly", "without_skelly"),
}


def roles(kind: str) -> Any:
    return dict(zip(("candidate", "baseline"), ARMS.get(kind, ()), strict=False))


@cache
def scored(kind: str, mode: Any) -> Report:
    if mode == "no evidence":
        return package.score(RUNS[kind](), **roles(kind), evidence=False)
    if mode == "gates":
        return package.score(RUNS[kind](), **roles(kind))
    report = scored(kind, "gates")
    promotion = promote(report.comparison, report.evidence, Options(promote_by=mode))
    options = msgspec.structs.replace(report.options, promote_by=mode)
    return msgspec.structs.replace(report, promotion=promotion, options=options)


def words_of(report: Report) -> set[str]:
    """Every word that the report may hold."""
    summary = summarize(report)
    texts = [
        *(
            summary.overview,
            summary.brief,
            summary.promote,
            summary.decision,
            summary.fails,
            summary.evidence,
        ),
        *(
            summary.tested or "",
            summary.scope,
            summary.broken or "",
            *summary.steps,
            *summary.caveats,
        ),
        *(text for amount in summary.amounts for text in (amount.why, amount.short)),
        *(report.to_text(full=True, width=120), summary.failed_brief or ""),
        f"CAVEATS ({len(summary.caveats) - 1} more with --full)",
    ]
    return {word for text in texts for line in text.split("\n") for word in visible(line).split()}


@pytest.mark.parametrize("mode", [*MODES, "no evidence"])
@pytest.mark.parametrize("kind", RUNS)
def test_the_default_report_is_one_screen_of_any_width(kind: str, mode: str) -> None:
    report = scored(kind, mode)
    whole = words_of(report)
    for width in WIDTHS:
        text = report.to_text(width=width)
        shown = text.splitlines()
        assert len(shown) <= MOST_LINES, text
        assert max(map(columns, shown)) <= width, text
        assert all(line == line.rstrip() for line in shown)
        # Beside a label there is less room than in a whole line.
        room = width - 11
        for line in shown:
            # The names of the arms are cut to fit.
            for word in line.split() if "(candidate)" not in line else ():
                if word in whole or "…" in word or re.fullmatch(r"\d+", word):
                    continue
                wide = [other for other in whole if word in other and columns(other) > room]
                assert wide, f"{word!r} in {line!r}"


def test_the_second_line_of_the_overview_gives_way_before_a_figure_does() -> None:
    shown = scored("demo", "gates").to_text(width=60)
    assert "planned runs: …\n\n" in shown
    assert all(label in shown for label in ("cost/solved", "min/solved"))


@pytest.mark.parametrize("kind", RUNS)
def test_the_parts_stand_in_one_order_and_what_is_cut_says_so(kind: str) -> None:
    report = scored(kind, "gates")
    summary = summarize(report)
    for width in WIDTHS:
        shown = report.to_text(width=width).splitlines()
        found = [word for line in shown if (word := line.split(" ")[0]) in LABELS]
        expected = [
            label
            for label in LABELS
            if (label != "NEXT" or summary.steps)
            and (label != "CAVEATS" or summary.caveats)
            and (label != "FAILED" or summary.failed)
            and (label != "BROKEN" or summary.broken)
        ]
        assert found == expected
        # What the intervals are about is never crowded out.
        assert any(line.startswith("Intervals") for line in shown) == bool(summary.scope)
        for label, text, end in (
            ("PROMOTE", summary.promote, summary.others),
            ("EVIDENCE", summary.evidence, ""),
        ):
            said = part(shown, label)
            assert said.endswith(end)
            said = said.removesuffix(end)
            assert said == visible(text) or (
                said.endswith(" …") and visible(text).startswith(said.removesuffix(" …"))
            )
        rest = len(summary.caveats) - 1
        if rest > 0:
            assert part(shown, "CAVEATS").endswith(f" ({rest} more with --full)")


def part(shown: list[str], label: str) -> str:
    """What stands beside a label, in one line."""
    start = next(at for at, line in enumerate(shown) if line.startswith(label))
    found = [shown[start].removeprefix(label).strip()]
    for line in shown[start + 1 :]:
        if not line.startswith(" " * 11) or not line.strip():
            break
        found.append(line.strip())
    return " ".join(found)


def test_a_width_beyond_what_is_readable_is_brought_into_range() -> None:
    report = scored("demo", "gates")
    for asked, given in ((0, 60), (59, 60), (121, 120), (10_000, 120)):
        assert report.to_text(width=asked) == report.to_text(width=given)
    assert report.to_text() == report.to_text(width=80)


def test_long_arms_are_told_apart_in_the_heading_and_named_by_the_decision() -> None:
    for width in WIDTHS:
        _, heading, *rest = scored("long arms", "gates").to_text(width=width).splitlines()
        assert re.fullmatch(r"x+…x+ \(candidate\) vs\. y+…y+ \(baseline\)", heading)
        decision = next(line for line in rest if line.startswith("DECISION"))
        assert re.fullmatch(r"DECISION   prefer x{10,}…x{10,}", decision)


@pytest.mark.parametrize(
    "kind", ["demo", "mixed", "few", "nothing", "troubled", "unfinished", "lost on one side"]
)
@pytest.mark.parametrize("mode", [*MODES, "no evidence"])
def test_the_full_report_holds_every_caveat(kind: str, mode: str) -> None:
    report = scored(kind, mode)
    for width in WIDTHS:
        text = report.to_text(full=True, width=width)
        said = " ".join(text.split())
        assert report.caveats
        for number, caveat in enumerate(report.caveats, 1):
            assert f"{number}. {visible(caveat.message)}" in said
        for step in summarize(report).steps:
            assert visible(step) in said
        assert "more with --full" not in said
        assert " …" not in said


@pytest.mark.parametrize("kind", ["demo", "few", "nothing", "mixed"])
def test_the_full_report_of_ordinary_figures_fits(kind: str) -> None:
    for width in WIDTHS[1:]:
        text = scored(kind, "gates").to_text(full=True, width=width)
        assert max(map(columns, text.splitlines())) <= width, text


ANSWERS = {"promote": "yes", "do not promote": "no", "not enough data": "not yet"}
EXIT_CODES = {"promote": 0, "do not promote": 1, "not enough data": 3}
GOES_BY = {"gates": "the gates", "evidence": "the evidence", "margin": "the margin rule"}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "kind",
    [
        *("demo", "mixed", "few", "nothing", "long arms", "better", "worse", "noise", "troubled"),
        *("unfinished", "lost on one side", "one arm missing", "all missing"),
    ],
)
def test_every_report_says_the_verdict_first_and_what_it_goes_by(
    kind: str, mode: str, tmp_path: Path
) -> None:
    report = scored(kind, mode)
    verdict = report.promotion.verdict
    path = tmp_path / "runs.jsonl"
    path.write_bytes(lines(RUNS[kind]()))
    given = [f"--{name}={arm}" for name, arm in roles(kind).items()]
    result = twoarm("score", str(path), *given, "--exit-code", "--promote-by", mode)
    assert result.code == EXIT_CODES[verdict]
    assert result.err.startswith(f"twoarm: {verdict}, by {GOES_BY[mode]}: ")
    shown = result.out.splitlines()
    labelled = next(line for line in shown[1:] if line.startswith(LABELS))
    starts = f"{ANSWERS[verdict]}, by {GOES_BY[mode]}: "
    assert labelled.startswith(f"PROMOTE    {starts}")
    # What it goes by is not said twice.
    assert not report.promotion.reasons[0].startswith(("evidence", "margin", "gate"))
    comment = report.to_github().splitlines()
    assert comment[2].endswith(f" {verdict.capitalize()}")
    assert comment[6].startswith(f"- **Promote**: {starts}")
    page = report.to_html()
    assert f"<title>twoarm: {verdict}</title>" in page
    (heading,) = re.findall(r"<h1>(.*?)</h1>", page)
    assert heading.endswith(f" {verdict.capitalize()}")
    said = unescape(re.findall(r"<dt>Promote</dt><dd>(.*?)</dd>", page)[0])
    assert said.startswith(starts)
    failures = report.to_junit().count("<failure ")
    assert failures if verdict == "do not promote" else verdict != "promote" or not failures


def test_every_mode_is_seen_to_promote_to_refuse_and_to_wait() -> None:
    kinds = [kind for kind in RUNS if kind != "500 tasks"]
    seen = {(mode, scored(kind, mode).promotion.verdict) for kind in kinds for mode in MODES}
    assert seen == {(mode, verdict) for mode in MODES for verdict in ANSWERS}


# Words that mean something where the reports stand; as names they mean nothing.
WORDS = [
    *("worse", "better", "promote", "do not promote", "lower", "higher", "fails", "holds", "tied"),
    *("Gates", "over other tasks", "infra", "infra: x", "good", "bad", "strong", "faint", "~"),
    *("not enough data", "mixed results - inspect paired deltas", "insufficient data", "duplicate"),
    *("prefer with_skelly", "candidate", "baseline", "success", "PROMOTE", "CAVEATS", "-", "gate"),
]


def named_by_words(arms: tuple[str, str], tasks: list[str]) -> list[dict[str, Any]]:
    runs = renamed(jitter(len(tasks), 5, (0, 1)), arms, lambda task: tasks[int(task[1:])])
    for repeat in (6, 7, 8):
        runs.append(run(tasks[0], arms[0], repeat, failure="infra", failure_reason=tasks[-1]))
    return runs


def painted(report: Report, *, full: bool) -> str:
    """The report with its roles: `<role>text</role>`."""
    look = Look(full=full, width=120, paint=lambda role, text: f"<{role}>{text}</{role}>")
    return render(report, look)


def test_a_name_is_never_painted_for_what_it_says() -> None:
    words = sorted(WORDS)
    # Names of the same widths and in the same order that say nothing.
    silent = [chr(0x3B1 + number) * len(word) for number, word in enumerate(words)]
    arms, others = ("worse", "promote"), ("qqqqq", "qzqzqzq")
    report = package.score(named_by_words(arms, words), candidate=arms[0], baseline=arms[1])
    plain = package.score(named_by_words(others, silent), candidate=others[0], baseline=others[1])

    def said(text: str) -> str:
        for name, word in zip((*others, *silent), (*arms, *words), strict=True):
            text = re.sub(rf"(?<!{name[0]}){re.escape(name)}(?!{name[0]})", word, text)
        return text

    for made in (
        lambda one: painted(one, full=False),
        lambda one: painted(one, full=True),
        lambda one: one.to_markdown(),
        lambda one: one.to_github(),
        lambda one: one.to_junit(),
    ):
        assert made(report) == said(made(plain))
    assert "<bad>" in painted(report, full=True)


def test_long_names_leave_room_for_what_is_said_of_them() -> None:
    runs = renamed(
        demo(), ("with_skelly", "without_skelly"), lambda task: f"{task}-{'x' * 20}-{task}"
    )
    report = package.score(runs)
    assert "largest drop: `flaky-retry-test-xxxx…retry-test`, 6 of 10" in report.to_text(width=120)
    assert f"`api-rate-limit-{'x' * 20}" in report.to_text(full=True, width=240)


@pytest.mark.parametrize("kind", RUNS)
def test_a_step_is_shown_whole_or_not_at_all(kind: str) -> None:
    report = scored(kind, "gates")
    first, *others = [str(step) for step in summarize(report).steps]
    text = " ".join(report.to_text(width=100).partition("NEXT")[2].partition("CAVEATS")[0].split())
    if "…" not in first and "…" in text:
        assert not [step for step in others if step[:30] in text]


def test_nothing_is_better_where_nothing_was_weighed() -> None:
    """Point estimates say which gates hold; a word for what is clear would promise more."""
    told = package.score(mixed(), evidence=False)
    rows = [line for line in told.to_text().splitlines() if line.startswith(("success", "median"))]
    assert {line.split()[-1] for line in rows if "(1)" not in line} == {"holds", "fails"}
    whole = told.to_text(full=True)
    assert " better" not in whole + told.to_markdown()
    assert " worse" not in whole + told.to_markdown()
