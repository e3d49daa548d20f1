"""Which runs count: failures, arms, duplicates, each with a row worked out by hand."""

from typing import Any

import pytest

import twoarm
from tests.conftest import WITH, WITHOUT, both, run

# Failures ----------------------------------------------------------------------------------------


# What a run says, and whether it counts.
FAILURES: list[tuple[dict[str, Any], bool]] = [
    ({}, True),
    ({"failure": None}, True),
    ({"failure": "agent"}, True),
    ({"failure": "infra"}, False),
    ({"agent_exit_code": 86}, False),
    ({"opencode_exit_code": 86}, False),
    ({"agent_exit_code": 0, "opencode_exit_code": 86}, True),
    ({"agent_exit_code": 1}, True),
    ({"agent_exit_code": 1, "acceptance_exit_code": 1}, True),
    ({"agent_exit_code": 1, "acceptance_exit_code": 99}, False),
    ({"opencode_exit_code": 124, "acceptance_exit_code": 99}, False),
    ({"agent_exit_code": 0, "acceptance_exit_code": 99}, True),
    ({"acceptance_exit_code": 99}, True),
    ({"failure": None, "agent_exit_code": 86}, True),
    ({"failure": "agent", "agent_exit_code": 86}, True),
    ({"failure": "agent", "agent_exit_code": 1, "acceptance_exit_code": 99}, True),
]


@pytest.mark.parametrize(("said", "counts"), FAILURES)
def test_only_infra_failures_are_excluded(said: dict[str, Any], counts: bool) -> None:
    runs = [*both(), *both(repeat=2)]
    runs[0] |= {"success": False, "duration_seconds": 9999, **said}
    analysis = twoarm.score(runs)
    assert analysis.run_count == 4
    assert analysis.effective_run_count == (4 if counts else 3)
    assert analysis.excluded_infra_failures == (0 if counts else 1)
    assert analysis.arm_summaries[0].success_rate == (0.5 if counts else 1.0)
    assert analysis.paired.paired_runs == (2 if counts else 1)
    assert sum(group.runs for group in analysis.excluded) == (0 if counts else 1)


@pytest.mark.parametrize(("said", "counts"), FAILURES)
def test_each_run_is_judged_by_itself(said: dict[str, Any], counts: bool) -> None:
    runs = [run(**said), run(repeat=2, agent_exit_code=3, acceptance_exit_code=99)]
    analysis = twoarm.score([*runs, run(arm=WITHOUT)])
    assert analysis.excluded_infra_failures == (1 if counts else 2)


def test_infra_failures_are_reported_by_reason_and_arm() -> None:
    runs = [
        *both(),
        run(repeat=2, failure="infra", failure_reason="provider"),
        run(repeat=3, failure="infra", failure_reason="provider"),
        run(repeat=4, failure="infra", failure_reason="sandbox"),
        run(arm=WITHOUT, repeat=2, failure="infra"),
        run(arm=WITHOUT, repeat=3, agent_exit_code=86),
    ]
    excluded = twoarm.score(runs).excluded
    assert {group.kind for group in excluded} == {"infra"}
    assert [(group.reason, group.arm, group.runs) for group in excluded] == [
        ("infra: provider", WITH, 2),
        ("infra: sandbox", WITH, 1),
        ("infra: agent exit code 86", WITHOUT, 1),
        ("infra: no reason given", WITHOUT, 1),
    ]


def test_an_agents_own_failure_counts_as_failed_whatever_success_says() -> None:
    runs = [*both(), run(repeat=2, failure="agent", success=True)]
    analysis = twoarm.score(runs)
    assert analysis.arm_summaries[0].successes == 1
    assert "agent_failure_with_success" in [caveat.code for caveat in analysis.caveats]


def test_a_reason_that_reads_like_another_kind_is_none() -> None:
    runs = [*both(), run(repeat=2, failure="infra", failure_reason="duplicate: another arm")]
    runs.append(run(arm="infra: provider"))
    analysis = twoarm.score(runs, candidate=WITH, baseline=WITHOUT)
    kinds = sorted((group.kind, group.arm) for group in analysis.excluded)
    assert kinds == [("infra", WITH), ("other arm", "infra: provider")]
    assert analysis.excluded_infra_failures == 1


def test_keep_infra_counts_them_as_runs() -> None:
    runs = [*both(), run(repeat=2, failure="infra", success=False)]
    analysis = twoarm.score(runs, keep_infra=True)
    assert analysis.effective_run_count == 3
    assert analysis.excluded == ()
    assert analysis.arm_summaries[0].success_rate == 0.5
    assert "infra_kept" in [caveat.code for caveat in analysis.caveats]


# Arms --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "options", "roles"),
    [
        (["with_skelly", "without_skelly"], {}, ("with_skelly", "without_skelly")),
        (["without_rag", "with_rag"], {}, ("with_rag", "without_rag")),
        (["a", "b"], {"candidate": "b", "baseline": "a"}, ("b", "a")),
        (["a", "b"], {"candidate": "b"}, ("b", "a")),
        (["a", "b"], {"baseline": "b"}, ("a", "b")),
        (["a", "b", "c"], {"candidate": "c", "baseline": "a"}, ("c", "a")),
        (
            ["with_skelly", "without_skelly"],
            {"candidate": "without_skelly"},
            ("without_skelly", "with_skelly"),
        ),
        (["without_skelly"], {}, ("with_skelly", "without_skelly")),
    ],
)
def test_arms_are_named_or_told_by_their_names(
    found: list[str], options: dict[str, str], roles: tuple[str, str]
) -> None:
    analysis = twoarm.score([run(arm=arm) for arm in found], **options)  # type: ignore[arg-type]
    assert (analysis.candidate, analysis.baseline) == roles


@pytest.mark.parametrize(
    ("found", "options", "message"),
    [
        (["a", "b"], {}, "name them with `candidate=` and `baseline=`; arms found: `a`, `b`"),
        (["with_x", "without_y"], {}, "arms found: `with_x`, `without_y`"),
        (["with_x", "without_x", "c"], {}, "arms found: `c`, `with_x`, `without_x`"),
        (["a", "b", "c"], {"candidate": "a"}, "name them with `baseline=`; arms found"),
        (["a", "b"], {"candidate": "aa"}, "no runs of arm `aa`; arms found: `a`, `b`$"),
        (["a", "b"], {"candidate": "a,b"}, "arms found: `a`, `b`; give it again for each arm$"),
        (["a", "b"], {"candidate": "a", "baseline": "a"}, "are both `a`; name two different arms"),
    ],
)
def test_arms_are_never_guessed(found: list[str], options: dict[str, str], message: str) -> None:
    with pytest.raises(twoarm.ArmsError, match=message):
        twoarm.score([run(arm=arm) for arm in found], **options)  # type: ignore[arg-type]


def test_runs_of_other_arms_are_excluded_and_said() -> None:
    analysis = twoarm.score([*both(), run(arm="third")], candidate=WITH, baseline=WITHOUT)
    assert (analysis.run_count, analysis.effective_run_count) == (3, 2)
    found = [(group.kind, group.reason, group.arm, group.runs) for group in analysis.excluded]
    assert found == [("other arm", "another arm", "third", 1)]
    (caveat,) = (caveat for caveat in analysis.caveats if caveat.code == "other_arms")
    assert caveat.message.startswith("1 run ")
    assert "`third`" in caveat.message


# Duplicates --------------------------------------------------------------------------------------


def test_a_duplicate_is_an_error_that_names_both_places() -> None:
    with pytest.raises(
        twoarm.BadRunsError, match="run:3: repeat: .* was already given at run:1"
    ) as caught:
        twoarm.score([*both(), run()])
    assert caught.value.count == 1
    assert '`duplicates="first"` or `"last"`' in str(caught.value)


@pytest.mark.parametrize(("which", "duration"), [("first", 10), ("last", 30)])
def test_duplicates_first_and_last(which: Any, duration: float) -> None:
    runs = [run(duration_seconds=seconds) for seconds in (10, 20, 30)]
    analysis = twoarm.score([*runs, run(arm=WITHOUT)], duplicates=which)
    assert analysis.arm_summaries[0].median_duration_seconds == duration
    assert [(g.kind, g.arm, g.runs) for g in analysis.excluded] == [("duplicate", WITH, 2)]
    assert "duplicates" in [caveat.code for caveat in analysis.caveats]


def test_a_run_may_be_done_again_after_an_infra_failure() -> None:
    analysis = twoarm.score([run(failure="infra"), *both()])
    assert analysis.effective_run_count == 2
    with pytest.raises(twoarm.BadRunsError):
        twoarm.score([run(failure="infra"), *both()], keep_infra=True)
