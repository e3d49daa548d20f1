"""Why runs failed: every reason and every figure, worked out by hand."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import twoarm as library
from tests.conftest import WITH, WITHOUT, both, lines, run
from tests.support.failed_runs import BUDGET, budget_runs
from twoarm.explain.failures import Failures
from twoarm.programs.claude_code import record as claude_code
from twoarm.programs.harbor import record as harbor
from twoarm.programs.mini_swe_agent import record as mini_swe_agent
from twoarm.programs.opencode import record as opencode
from twoarm.result.caveats import foremost
from twoarm.runs.endings import FAILURE_CODES, FAILURE_WORDS, code_of
from twoarm.runs.runs import MOST_REASONS


def failures(runs: list[dict[str, Any]], **options: Any) -> Failures:
    return library.score(runs, evidence=False, **options).failures


def reasons(runs: list[dict[str, Any]], **options: Any) -> dict[str, int]:
    """Of the candidate, the most frequent first."""
    groups = failures(runs, **options).candidate.reasons
    return {group.reason: group.runs for group in groups}


# Reasons ------------------------------------------------------------------------------------------

TEXTS = {
    "hit the time limit of its runner": "timeout",
    "time limit": "timeout",
    "working limit reached": "timeout",
    "context deadline exceeded": "timeout",
    "hit the budget limit of its runner": "budget",
    "cost limit reached": "budget",
    "token limit reached": "budget",
    "hit the output limit of its runner": "output_limit",
    "hit the memory limit of its runner": "memory_limit",
    "turn limit": "turn_limit",
    "message limit reached": "turn_limit",
    "context overflow": "context",
    "context limit reached": "context",
    "This model's maximum context length is 128000 tokens": "context",
    "its output cannot be read: no run in it": "unreadable_output",
    "no event was printed (exit code 3)": "crash",
    "exited early: its turn did not end": "crash",
    "killed: its last step did not finish": "crash",
    "no result was written": "crash",
    "no step was taken": "crash",
    "no exit status was written": "crash",
    "its supervisor was killed": "crash",
    "its supervisor stopped answering": "crash",
    "refused: content filter": "refusal",
    "acceptance failed": "acceptance",
    "stopped after a step that ended with `x`": "other",
    "no reason given": "not_given",
}


@pytest.mark.parametrize("text", TEXTS)
def test_a_reason_in_words_has_a_code(text: str) -> None:
    assert code_of(text) == TEXTS[text]
    assert reasons([run(failure="agent", failure_reason=text), run(arm=WITHOUT)]) == {
        TEXTS[text]: 1
    }


def test_no_reason_that_a_program_gives_is_unknown() -> None:
    texts = {
        *claude_code.AGENT_ENDS.values(),
        *mini_swe_agent.AGENT_ENDS.values(),
        *opencode.AGENT_ERRORS.values(),
        *harbor.AGENT_EXCEPTIONS,
    }
    assert {text for text in texts if code_of(text) in ("other", "not_given")} == set()
    assert code_of("AgentTimeoutError") == "timeout"
    assert code_of("ContextWindowExceededError") == "context"
    assert code_of("OutputLengthExceededError") == "output_limit"


def test_the_words_of_a_code_have_that_code() -> None:
    assert [code_of(FAILURE_WORDS[code]) for code in FAILURE_CODES] == list(FAILURE_CODES)


EXITS: list[tuple[dict[str, Any], str, int]] = [
    ({"acceptance_exit_code": 1}, "acceptance", 0),
    ({"acceptance_exit_code": 1, "agent_exit_code": 0}, "acceptance", 0),
    ({"acceptance_exit_code": 1, "agent_exit_code": 3}, "crash", 0),
    ({"acceptance_exit_code": 1, "opencode_exit_code": 3}, "crash", 0),
    ({"acceptance_exit_code": 1, "agent_exit_code": 0, "opencode_exit_code": 3}, "acceptance", 0),
    ({"acceptance_exit_code": 0}, "not_given", 1),
    ({"acceptance_exit_code": 0, "agent_exit_code": 1}, "crash", 1),
    ({"acceptance_exit_code": 99, "agent_exit_code": 0}, "not_given", 0),
    ({}, "not_given", 0),
    ({"failure": None}, "not_given", 0),
    ({"failure": "agent"}, "not_given", 0),
    ({"failure": "agent", "acceptance_exit_code": 1}, "acceptance", 0),
    ({"failure": None, "failure_reason": "timed out"}, "timeout", 0),
    ({"failure_reason": "timed out", "acceptance_exit_code": 1}, "timeout", 0),
    ({"failure_reason": "it felt wrong"}, "other", 0),
    ({"failure_reason": "it felt wrong", "acceptance_exit_code": 1}, "acceptance", 0),
    (BUDGET | {"acceptance_exit_code": 1, "agent_exit_code": 137}, "budget", 0),
    (BUDGET | {"acceptance_exit_code": 0}, "budget", 1),
    (BUDGET | {"tags": ["passed_despite_failure"]}, "budget", 1),
    (BUDGET | {"tags": "passed_despite_failure"}, "budget", 0),
    (BUDGET | {"success": True}, "budget", 1),
    (BUDGET | {"success": True, "acceptance_exit_code": 1}, "budget", 0),
    (BUDGET | {"tags": ["passed_despite_failure"], "acceptance_exit_code": 1}, "budget", 0),
]


@pytest.mark.parametrize(("changed", "reason", "passed"), EXITS)
def test_exit_codes_tell_what_the_record_does_not(
    changed: dict[str, Any], reason: str, passed: int, tmp_path: Path
) -> None:
    failed = [run(repeat=1), run(repeat=2, success=False) | changed, run(arm=WITHOUT)]
    path = tmp_path / "runs.jsonl"
    # Lines with the same keys are read many at a time.
    path.write_bytes(lines(failed) + lines([failed[1] | {"repeat": 3}]))
    for ours, count in ((failures(failed), 1), (library.score(path).failures, 2)):
        (group,) = ours.candidate.reasons
        assert (group.reason, group.runs) == (reason, count)
        assert (group.passed_acceptance, ours.candidate.passed_acceptance) == (
            passed * count,
            passed * count,
        )
        assert (ours.candidate.failed, ours.baseline.failed) == (count, 0)


def test_infra_failures_that_count_are_a_reason_of_their_own() -> None:
    runs = [
        *both(),
        run(repeat=2, success=False, failure="infra", failure_reason="timed out"),
    ]
    assert reasons(runs) == {}
    assert reasons(runs, keep_infra=True) == {"infra": 1}


def test_reasons_come_by_their_number_and_keep_their_words() -> None:
    words = ["time limit", "out of turns: turn limit", "turn limit", "turn limit", "x" * 999]
    runs = [
        *(
            run(repeat=repeat, failure="agent", failure_reason=text)
            for repeat, text in enumerate(words, 1)
        ),
        run(arm=WITHOUT),
    ]
    ours = failures(runs).candidate
    assert [group.reason for group in ours.reasons] == ["turn_limit", "timeout", "other"]
    assert [(text.text, text.runs) for text in ours.reasons[0].texts] == [
        ("turn limit", 2),
        ("out of turns: turn limit", 1),
    ]
    assert len(ours.reasons[2].texts[0].text) == 200


def test_very_many_reasons_are_kept_by_their_kind() -> None:
    runs = [
        run(
            repeat=number + 1,
            failure="agent" if number % 2 else None,
            success=False,
            failure_reason=f"{'timed out' if number % 3 else 'odd'} after {number}",
        )
        for number in range(3 * MOST_REASONS)
    ]
    made = library.read([*runs, run(arm=WITHOUT)])
    assert len(made.outcomes) <= MOST_REASONS + 2 * len(FAILURE_CODES)
    assert reasons([*runs, run(arm=WITHOUT)]) == {
        "timeout": 2 * MOST_REASONS,
        "other": MOST_REASONS,
    }
    excluded = [
        run(repeat=number + 1, failure="infra", failure_reason=f"odd {number}")
        for number in range(2 * MOST_REASONS)
    ]
    kept = library.score([*excluded, *both("other")], evidence=False)
    assert len(kept.excluded) == 2 * MOST_REASONS


def test_the_counts_are_those_of_a_loop_over_the_records() -> None:
    draw = random.Random(7)
    told: list[dict[str, Any]] = [
        {},
        {"failure": None},
        {"failure": "infra", "failure_reason": "429"},
        *({"failure": "agent", "failure_reason": text} for text in TEXTS),
    ]
    runs = [
        run(
            f"t{task}",
            arm,
            repeat,
            success=draw.random() < 0.5,
            **draw.choice(told[: draw.choice((3, len(told)))]),
            **draw.choice([{}, {"agent_exit_code": 1}, {"agent_exit_code": 0}]),
            **draw.choice([{}, {"acceptance_exit_code": 1}, {"acceptance_exit_code": 0}]),
        )
        for task in range(30)
        for arm in (WITH, WITHOUT)
        for repeat in range(1, 21)
    ]
    expected: dict[str, Counter[str]] = {WITH: Counter(), WITHOUT: Counter()}
    passed = Counter[tuple[str, str]]()
    for made in runs:
        failed = not made["success"] or made.get("failure") == "agent"
        if made.get("failure") == "infra" or not failed:
            continue
        reason = TEXTS.get(made.get("failure_reason", ""), "not_given")
        if reason in ("other", "not_given") and made.get("agent_exit_code") == 1:
            reason = "crash"
        elif reason in ("other", "not_given") and made.get("acceptance_exit_code") == 1:
            reason = "acceptance"
        expected[made["arm"]][reason] += 1
        if made.get("acceptance_exit_code", 0 if made["success"] else 1) == 0:
            passed[made["arm"], reason] += 1
    for arm in failures(runs).arms:
        assert {group.reason: group.runs for group in arm.reasons} == expected[arm.arm]
        assert arm.failed == expected[arm.arm].total() > 100
        for group in arm.reasons:
            assert group.passed_acceptance == passed[arm.arm, group.reason]


# Limits that decide -------------------------------------------------------------------------------


def limits_said(runs: list[dict[str, Any]]) -> str | None:
    report = library.score(runs, evidence=False)
    first = foremost(report.caveats)[0] if report.caveats else None
    told = [caveat for caveat in report.caveats if caveat.code == "limits_decide_success"]
    assert told == ([first] if told else [])
    assert all(caveat.severity == "serious" for caveat in told)
    return str(told[0].message) if told else None


def test_a_budget_that_makes_most_of_the_difference_is_the_first_caveat() -> None:
    report = library.score(budget_runs())
    assert report.promotion.verdict == "promote"
    assert [arm.failed for arm in report.failures.arms] == [1, 8]
    alone = report.failures.by_acceptance
    assert alone is not None
    assert (alone.gate.candidate, alone.gate.baseline) == (0.95, 0.85)
    assert limits_said(budget_runs()) == (
        f"limits aside, success is 95.0% vs. 85.0%, not 95.0% vs. 60.0%: 5 runs of `{WITHOUT}` "
        "passed acceptance although a limit ended them (budget), which makes most of the difference"
    )
    text = report.to_text()
    assert "FAILED     candidate 1 (acceptance); baseline 8 (7 budget, 1 acceptance)\n" in text
    assert (
        "CAVEATS    limits aside, success is 95.0% vs. 85.0%, not 95.0% vs. 60.0%: 5 runs" in text
    )
    assert len(text.splitlines()) <= 24
    assert (report.next[0].code, str(report.next[0].message)) == (
        "raise_limits",
        "raise the limits and run again: so far they decide success more than the change does",
    )


def test_limits_that_turn_the_gate_decide_success() -> None:
    assert limits_said(budget_runs(7)) == (
        f"limits aside, success is 95.0% vs. 95.0%, not 95.0% vs. 60.0%: 7 runs of `{WITHOUT}` "
        "passed acceptance although a limit ended them (budget), which decides the gate"
    )
    runs = [
        run(repeat=1),
        run(repeat=2, failure="agent", failure_reason="time limit", acceptance_exit_code=0),
        run(arm=WITHOUT),
        run("t", WITHOUT, 2, success=False),
    ]
    assert limits_said(runs) == (
        f"limits aside, success is 100.0% vs. 50.0%, not 50.0% vs. 50.0%: 1 run of `{WITH}` "
        "passed acceptance although a limit ended it (timeout), which decides the gate"
    )


def test_limits_that_decide_come_before_arms_that_look_swapped() -> None:
    report = library.score(budget_runs(7), candidate=WITHOUT, baseline=WITH, evidence=False)
    first, second, *_ = foremost(report.caveats)
    assert (first.code, second.code) == ("limits_decide_success", "arms_look_swapped")


@pytest.mark.parametrize(
    ("passed", "decide"),
    # Of 35 points, 20, 15 and 10 are left by acceptance alone.
    [(3, False), (4, True), (5, True), (0, False)],
)
def test_limits_decide_from_half_of_the_difference_on(passed: int, decide: bool) -> None:
    assert (limits_said(budget_runs(passed)) is not None) is decide
    alone = failures(budget_runs(passed)).by_acceptance
    assert (alone is None) == (passed == 0)


def test_a_difference_that_only_grows_by_acceptance_is_no_caveat() -> None:
    runs = budget_runs()
    for made in runs:
        if made["arm"] == WITH and made["failure"] is None and not made["success"]:
            made |= BUDGET | {"acceptance_exit_code": 0}
        elif made["failure"] == "agent":
            made["acceptance_exit_code"] = 1
    alone = failures(runs).by_acceptance
    assert alone is not None
    assert (alone.gate.candidate, alone.gate.baseline) == (1.0, 0.6)
    assert limits_said(runs) is None


def test_a_crash_is_no_limit() -> None:
    runs = [
        made | {"failure_reason": "exited early"} if made["failure"] == "agent" else made
        for made in budget_runs(7)
    ]
    assert failures(runs).by_acceptance is None
    assert failures(runs).baseline.passed_acceptance == 7


# In the reports -----------------------------------------------------------------------------------


def test_nothing_is_said_where_nothing_failed() -> None:
    report = library.score([*both(), *both("u")])
    assert "FAILED" not in report.to_text()
    assert "Failed" not in report.to_markdown() + report.to_html()
    assert 'name="failed"' not in report.to_junit()


def test_every_report_says_how_many_failed_and_why() -> None:
    report = library.score(budget_runs())
    told = "candidate 1 of 20 (acceptance); baseline 8 of 20 (7 budget, 1 acceptance)"
    assert f"- **Failed**: {told}." in report.to_markdown()
    assert f"- **Failed**: {told}." in report.to_github()
    assert f"<dt>Failed</dt><dd>{told}</dd>" in report.to_html()
    assert f'<property name="failed" value="{told}"/>' in report.to_junit()
    table = "| budget | 0 | 7 | 0 vs. 5 | `budget limit` |\n| acceptance | 1 | 1 | 0 vs. 0 |  |"
    assert table in report.to_markdown()
    full = report.to_text(full=True)
    assert "Failed runs: 1 of 20 in the candidate, 8 of 20 in the baseline" in full
    assert "  budget                0               7            0 vs. 5\n" in full


def test_failures_are_one_line_and_say_of_how_many_where_that_fits() -> None:
    report = library.score(budget_runs())
    told = "FAILED     candidate 1 of 20 (acceptance); baseline 8 of 20 (7 budget, 1 acceptance)\n"
    assert all(told in report.to_text(full=full, width=100) for full in (False, True))
    assert told.replace(" of 20", "") in report.to_text(width=80)
    narrow = library.score(budget_runs(), evidence=False).to_text(width=60)
    assert "1\n           acceptance)\n" in narrow


def test_an_arm_without_a_failure_and_one_without_a_run_are_told_apart() -> None:
    runs = [run(repeat=1, success=False, acceptance_exit_code=1), run(repeat=2)]
    alone = library.score(runs, evidence=False)
    assert "FAILED     candidate 1 of 2 (acceptance)\n" in alone.to_text()
    report = library.score([*runs, run(arm=WITHOUT)], evidence=False)
    assert "FAILED     candidate 1 of 2 (acceptance); baseline none of 1\n" in report.to_text()


def test_a_hostile_reason_is_harmless_everywhere() -> None:
    evil = "timed out | <script>alert(1)</script> `@all` \x1b[31m"
    runs = [run(failure="agent", failure_reason=evil), run(arm=WITHOUT)]
    report = library.score(runs, evidence=False)
    assert report.failures.candidate.reasons[0].reason == "timeout"
    markdown = report.to_markdown()
    assert "| ``timed out \\| <script>alert(1)</script> `@all` \\x1b[31m`` |" in markdown
    assert "<script>alert(1)" not in report.to_html()
    assert "\x1b" not in report.to_text(full=True) + report.to_html() + report.to_json() + markdown


# Tasks that tell nothing --------------------------------------------------------------------------


def test_tasks_that_always_pass_or_always_fail_are_named() -> None:
    runs = [
        *both("passes"),
        *both("passes", 2),
        *both("fails", success=False),
        run("one arm passes", WITH),
        run("one arm passes", WITHOUT, success=False),
        *both("varies"),
        run("varies", WITH, 2, success=False),
        run("one arm only", WITH),
        run("one arm only and fails", WITHOUT, success=False),
    ]
    report = library.score(runs, evidence=False)
    assert report.failures.always_pass == ("passes",)
    assert report.failures.always_fail == ("fails",)
    text = report.to_text(full=True)
    said = (
        "1 of 6 tasks fails in every run of both arms and says nothing about success:\n    `fails`"
    )
    assert said in text
    assert said.replace("fails", "passes") in text
