"""A run of three arms, from its suite to the report on both candidates."""

import json
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import twoarm
from tests.support.loop_in_memory import Simulation, terms
from tests.support.random_kills import kill_often
from tests.support.run_folders import QUICK, USAGE, journal, records, run, runs, unaccounted
from tests.support.suite_files import SOLVE, suite_of
from twoarm.run.attempted import Attempted

pytestmark = pytest.mark.usefixtures("cache")

THIRD: dict[str, Any] = {"tool": {"env": {"HINT": "2"}}}
ARMS = ("with", "tool", "without")
FREE = terms(budget_usd=None)
SPENDS = USAGE + f"used 100 0.5; {SOLVE}"


def suite_of_three(folder: Path, script: str = SPENDS, **changed: Any) -> Path:
    return suite_of(folder, script, arms=THIRD, **changed)


def comparison(out: Path) -> dict[str, Any]:
    found = json.loads((out / "comparison.json").read_text())
    for analysis in found["comparisons"]:
        analysis["generated_at_utc"] = None
    return dict(found)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("three")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TWOARM_CACHE", str(folder / "cache"))
        suite = suite_of_three(folder, description="Does a hint help, or a tool?")
        result = run(suite, folder / "out", "--repeats", "2", "--seed", "7", "--jobs", "1")
    assert result.code == 0, result.err
    assert json.loads(result.out)["schema"] == "twoarm.comparison/1"
    assert f"see one run with twoarm show {folder / 'out'} " in result.err
    return folder / "out"


def test_every_arm_runs_in_every_block_and_the_report_is_on_both_candidates(ran: Path) -> None:
    begun = [event["attempt"] for event in journal(ran) if event["event"] == "begun"]
    assert len(begun) == 12
    for at in range(0, 12, 3):
        block = [attempt.split("/") for attempt in begun[at : at + 3]]
        assert sorted(arm for arm, _ in block) == sorted(ARMS)
        assert len({trial for _, trial in block}) == 1
    file = comparison(ran)
    assert (file["schema"], file["baseline"]) == ("twoarm.comparison/1", "without")
    assert [analysis["candidate"] for analysis in file["comparisons"]] == ["with", "tool"]
    assert {analysis["options"]["seed"] for analysis in file["comparisons"]} == {7}
    assert [arm["counted"] for a in file["comparisons"] for arm in a["trials"]] == [4] * 4
    receipt = json.loads((ran / "receipt.json").read_text())
    assert (receipt["candidates"], receipt["baseline"]) == (["with", "tool"], "without")
    assert (receipt["trials"], receipt["done"]) == (12, 12)
    assert unaccounted(ran) == []
    assert sorted(path.name for path in ran.glob("*.json")) == [
        "comparison.json",
        "place.json",
        "receipt.json",
        "schedule.json",
        "trees.json",
    ]


def test_score_of_the_folder_says_the_same_and_names_what_was_tested(ran: Path) -> None:
    result = twoarm("score", str(ran), "--no-evidence", "--format", "json")
    assert result.code == 0
    file = json.loads(result.out)
    for analysis in file["comparisons"]:
        analysis["generated_at_utc"] = None
    assert file == comparison(ran)
    first, heading = twoarm("score", str(ran)).out.splitlines()[:2]
    assert first.startswith("suite `fake`; `command`; ")
    assert heading == "2 candidates vs. without (baseline)"
    page, text = (ran / "report.html").read_text(), (ran / "comparison.md").read_text()
    assert "<p" in page[: page.index("<h1>2 candidates vs. without</h1>")]
    assert "Does a hint help, or a tool?" in page[: page.index("<h1>2 candidates")]
    assert text.startswith("suite `fake`; `command`; ")
    # What is given comes first.
    for given in (["--candidate", "tool"], ["--candidate", "tool", "--baseline", "without"]):
        alone = json.loads(twoarm("score", str(ran), *given, "--format", "json").out)
        assert (alone["candidate"], alone["baseline"]) == ("tool", "without")
    other = json.loads(twoarm("score", str(ran), "--baseline", "tool", "--format", "json").out)
    assert [analysis["candidate"] for analysis in other["comparisons"]] == ["with", "without"]
    assert "one candidate" in twoarm("score", str(ran), "--exit-code").err


def test_status_show_and_pages_have_all_three(ran: Path) -> None:
    status = twoarm("run", "--status", str(ran)).out
    arms = "`with` 4 of 4, `tool` 4 of 4, `without` 4 of 4"
    assert f"12 of 12 trials done ({arms}), 0 running, 0 infra, $6.00 spent\n" in status
    shown = twoarm("show", str(ran), "one", "2").out
    for arm in ARMS:
        assert f"one, repeat 2, {arm}: passed" in shown
    assert "tool: passed" not in twoarm("show", str(ran), "one", "2", "--arm", "with").out
    pages = sorted((ran / "run-pages").glob("one-*"))
    assert len(pages) == 2
    text = pages[0].read_text()
    heads = [f'</span> {arm} <span class="faint">' for arm in ARMS]
    assert sorted(heads, key=text.index) == heads
    assert f"run-pages/{pages[0].name}" in (ran / "report.html").read_text()


def test_an_exit_code_cannot_answer_for_two_and_nothing_is_run(tmp_path: Path) -> None:
    suite, out = suite_of_three(tmp_path), tmp_path / "out"
    result = run(suite, out, "--exit-code")
    assert result.code == 2
    assert "--exit-code answers for one candidate, and this suite has 2; leave it" in result.err
    assert not out.exists()
    assert run(suite, out).code == 0
    done = runs(out)
    assert twoarm("run", "--resume", str(out), *QUICK, "--exit-code").code == 2
    assert (runs(out), len(done)) == (done, 6)


def test_a_dry_run_shows_the_order_of_all_arms(tmp_path: Path) -> None:
    result = twoarm("run", str(suite_of_three(tmp_path)), "--dry-run", "--repeats", "9")
    assert "2 tasks x 9 repeats x 3 arms = 54 trials\n" in result.out
    first = next(line for line in result.out.splitlines() if line.startswith("  1. "))
    assert sorted(first.split(": ")[1].split(", then ")) == sorted(ARMS)
    # 100 (z(.9875) + z(.8)) sqrt(.5 / 18), with two candidates.
    assert "about 51 points in success on these tasks for each candidate, four" in result.out
    assert "time: at most 18 min" in result.out


def test_what_is_left_of_a_block_runs_before_whole_blocks(tmp_path: Path) -> None:
    suite, out = suite_of_three(tmp_path), tmp_path / "out"
    assert run(suite, out, "--repeats", "2", "--jobs", "1").code == 0
    begun = [event["attempt"] for event in journal(out) if event["event"] == "begun"]
    trials = [attempt.rpartition(".")[0] for attempt in begun]
    # One arm of the last block is done, the block before it is whole.
    gone = [*trials[-6:-3], trials[-3], trials[-1]]
    for trial in gone:
        shutil.rmtree(out / "runs" / trial)
    assert twoarm("run", "--resume", str(out), *QUICK).code == 0
    again = [event["attempt"] for event in journal(out) if event["event"] == "begun"][12:]
    order = [attempt.rpartition(".")[0] for attempt in again]
    assert order == [trials[-3], trials[-1], *trials[-6:-3]]


def test_a_runner_of_three_arms_killed_again_and_again_goes_on(tmp_path: Path) -> None:
    survived = kill_often(tmp_path, seed=2, tasks=3, repeats=2, kills=3, arms=3)
    assert survived.kills >= 2
    assert survived.left_alive == []
    assert (survived.lost, survived.changed, survived.twice) == (0, [], [])
    assert survived.trials == 18


def test_a_budget_ends_a_run_with_whole_blocks(tmp_path: Path) -> None:
    suite, out = suite_of_three(tmp_path), tmp_path / "out"
    money = ("--budget", "2", "--trial-budget", "0.5")
    result = run(suite, out, "--repeats", "2", "--jobs", "1", *money)
    assert result.code == 0, result.err
    assert len(runs(out)) == 3
    assert len({name.split("/")[1] for name in runs(out)}) == 1
    missing = [line for line in records(out) if line["failure"] == "missing"]
    assert Counter(line["arm"] for line in missing) == dict.fromkeys(ARMS, 3)
    assert {line["failure_reason"] for line in missing} == {"over budget"}
    for analysis in comparison(out)["comparisons"]:
        assert analysis["promotion"]["verdict"] == "not enough data"
        assert [arm["counted"] for arm in analysis["trials"]] == [1, 1]
    text = twoarm("score", str(out)).out
    assert text.count("1 of 4 (3 over budget)") == 2
    assert "Of the baseline, 1 of 4 planned runs are counted: 3 over budget." in text
    more = twoarm("run", "--resume", str(out), "--budget", "9", *QUICK)
    assert more.code == 0, more.err
    assert len(runs(out)) == 12


def cheap(attempted: Attempted, rng: random.Random) -> tuple[str, float | None, float]:
    return "run", 0.1, rng.lognormvariate(0, 0.5)


def test_a_block_starts_only_if_all_its_arms_are_paid_for() -> None:
    poor = Simulation(terms(budget_usd=4.4), cheap, slots=1, arms="abc")
    assert (poor.end, poor.folder.begun) == ("budget", [])
    enough = Simulation(terms(budget_usd=4.6), cheap, slots=1, arms="abc", tasks=1, repeats=1)
    assert (enough.end, len(enough.folder.published)) == ("done", 3)


def test_a_run_stops_only_if_the_first_runs_of_every_arm_cannot_be_read() -> None:
    def unread(arms: str, seed: int) -> Simulation:
        return Simulation(
            FREE,
            cheap,
            seed=seed,
            arms="abc",
            facts=lambda attempted: {"unread": "why"} if attempted.arm in arms else {},
        )

    for seed in range(10):
        assert unread("ab", seed).end == "done"
        with pytest.raises(AttributeError, match="run_of"):
            # The loop in memory has no folder to name in its message.
            unread("abc", seed)


def test_a_candidate_without_a_run_has_a_row_that_says_so(tmp_path: Path) -> None:
    script = f'{USAGE} if [ "$HINT" = 2 ]; then infra busy; else used 100 0.5; {SOLVE}; fi'
    suite, out = suite_of_three(tmp_path, script, limits={"retries": 0}), tmp_path / "out"
    result = run(suite, out, "--jobs", "1")
    assert result.code == 0, result.err
    assert Counter(name.split("/")[0] for name in runs(out)) == {"with": 2, "without": 2}
    with_hint, with_tool = comparison(out)["comparisons"]
    assert [arm["counted"] for arm in with_hint["trials"]] == [2, 2]
    assert [arm["counted"] for arm in with_tool["trials"]] == [0, 2]
    assert (with_tool["decision"], with_tool["promotion"]["verdict"]) == (
        "insufficient data",
        "not enough data",
    )
    text = twoarm("score", str(out)).out
    row = next(line for line in text.splitlines() if line.startswith("  tool "))
    assert row.split("  ")[-1] == "0 of 2 (2 infra failures)"


@pytest.mark.parametrize(
    ("busy", "code", "said"),
    [('[ -z "$HINT" ]', 3, "`without`"), ('[ -n "$HINT" ]', 3, "`with`")],
)
def test_without_a_run_of_the_baseline_or_of_any_candidate_there_is_nothing_to_score(
    busy: str, code: int, said: str, tmp_path: Path
) -> None:
    script = f"{USAGE} if {busy}; then infra busy; else used 100 0.5; {SOLVE}; fi"
    limits = {"retries": 0}
    suite, out = suite_of_three(tmp_path, script, limits=limits), tmp_path / "out"
    result = run(suite, out, "--jobs", "1")
    assert f"no run of arm {said} yet; there is nothing to score" in result.err
    assert result.code == code
    assert not (out / "comparison.json").exists()
