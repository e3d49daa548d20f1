"""Arms, parts, looks, grading and scores in one another's company."""

import json
from pathlib import Path
from typing import Any

import pytest

import twoarm as library
from tests.conftest import WITH, WITHOUT, twoarm
from tests.conftest import run as record
from tests.run.test_looks import FASTER, PLAIN, TASKS, WIDE, start
from tests.support.run_folders import USAGE, records, runs
from tests.support.suite_files import suite_of

pytestmark = pytest.mark.usefixtures("cache")

WORSE = (
    USAGE
    + """
if [ -n "$HINT" ]; then sleep 0.05; used $((900 + $$ % 9)) 0.1; exit; fi
echo a > answer.txt
used 300 0.1
"""
)
# The first candidate takes a third of what the baseline takes, and the other one twice as much.
APART = (
    USAGE
    + """
echo a > answer.txt
case "$HINT" in
    1) used $((300 + $$ % 9)) 0.1 ;;
    2) sleep 0.1; used $((1800 + $$ % 9)) 0.1 ;;
    *) sleep 0.05; used $((900 + $$ % 9)) 0.1 ;;
esac
"""
)
BRIEF = ("--display", "quiet", "--run-pages", "none")


def many(count: int, command: str = "test -f answer.txt") -> list[dict[str, Any]]:
    return [
        {"id": f"t{number}", "prompt": "p", "acceptance_command": command}
        for number in range(count)
    ]


def test_a_later_report_goes_by_the_plan_of_a_run_with_looks(tmp_path: Path) -> None:
    suite, out = suite_of(tmp_path / "s", FASTER, tasks=TASKS), tmp_path / "out"
    result = start(suite, out, "--looks", "1,2", "--level", "0.9")
    assert result.code == 0, result.err
    assert "a promotion takes 5 repeats, and the last look is after 2" in result.err
    assert "with 6 tasks a look hardly ever ends a run: it takes about 9" in result.err
    options = json.loads(twoarm("score", str(out), "--format", "json").out)["options"]
    assert (options["promote_by"], options["level"]) == ("evidence", 0.9)
    assert library.score(str(out)).options.promote_by == "evidence"
    plain = json.loads(twoarm("score", str(out), "--no-evidence", "--format", "json").out)
    assert plain["options"]["promote_by"] == "gates"


def test_a_candidate_that_is_worse_at_a_look_is_not_waited_for(tmp_path: Path) -> None:
    suite, out = suite_of(tmp_path / "s", WORSE, tasks=many(10)), tmp_path / "out"
    result = start(suite, out, "--looks", "3,4,6", "--exit-code")
    assert result.code == 1, result.out
    assert "baseline better" in result.err
    assert "PROMOTE    no, by the evidence: clearly worse after " in result.out
    found = json.loads((out / "analysis.json").read_text())
    assert "add_repeats" not in json.dumps(found["next"])
    assert "run more repeats" not in result.out


def test_several_arms_run_until_the_answer_is_known_for_each(tmp_path: Path) -> None:
    suite = suite_of(tmp_path / "s", APART, tasks=many(10), arms={"third": {"env": {"HINT": "2"}}})
    out = tmp_path / "out"
    result = start(suite, out, "--looks", "4,5,6", *WIDE)
    assert result.code == 0, result.err
    assert "with 10 tasks a look hardly ever ends a run: it takes about 11" in result.err
    # Who is worse is known sooner than who could be promoted.
    because = {"with": "candidate better", "third": "baseline better"}
    expected: dict[int, dict[str, str | None]] = {
        4: because | {"with": None},
        5: dict(because),
    }
    for look, stops in expected.items():
        seen = [line for line in records(out) if line["repeat"] <= look]
        for candidate, stop in stops.items():
            # Each has half of the 5%.
            words: Any = {"candidate": candidate, "baseline": "without", "level": 0.975}
            assert library.look(seen, margin_success=0.4, **words).stop == stop
    looks = json.loads((out / "looks.json").read_text())
    assert looks == {"taken": [4], "ended": {"after": 5, "because": because}}
    assert len(runs(out)) == 150
    ended = "stopped after 5 of 6 repeats: `with`: candidate better; `third`: baseline better; "
    assert f"twoarm: {ended}30 of 180 runs saved\n" in result.err
    # Every report says the same.
    for shown in (result.out, twoarm("score", str(out)).out, (out / "comparison.md").read_text()):
        assert f"The run {ended}30 of 180 runs saved." in " ".join(shown.split())
    assert "30 of 180 runs saved" in twoarm("score", str(out), "--candidate", "third").out
    assert "20 of 120" not in (out / "comparison.md").read_text()
    # Nobody stopped for what another baseline would say.
    other = twoarm("score", str(out), "--baseline", "third").out
    assert "stopped" not in other


def test_runs_that_ended_at_a_look_are_judged_as_they_are_graded_now(tmp_path: Path) -> None:
    folder, out = tmp_path / "s", tmp_path / "out"
    suite = suite_of(folder, FASTER, tasks=TASKS)
    assert start(suite, out, "--looks", "2,5,6", *WIDE).code == 0
    new = tmp_path / "same"
    result = twoarm("regrade", str(out), "--out", str(new), *BRIEF)
    assert result.code == 0, result.err
    assert "stopped after 5 of 6 repeats: candidate better; 12 of 72 runs saved" in result.err
    # Nobody is promoted if nobody succeeds, so that the look no longer ends the run.
    suite_of(folder, FASTER, tasks=many(6, "false"))
    new = tmp_path / "other"
    result = twoarm("regrade", str(out), "--out", str(new), *BRIEF)
    assert result.code in (0, 3), result.err
    assert "candidate better; 12 of" not in result.err
    looks = json.loads((new / "looks.json").read_text())
    assert (looks["taken"], looks.get("ended")) == ([2, 5], None)
    resumed = twoarm("run", "--resume", str(new), *PLAIN)
    assert resumed.code in (0, 3), resumed.err
    assert len(runs(new)) == 72


def test_a_folder_that_grew_is_not_graded_into(tmp_path: Path) -> None:
    suite, out, new = suite_of(tmp_path / "s", FASTER), tmp_path / "out", tmp_path / "new"
    assert start(suite, out, "--repeats", "1", "--no-evidence").code == 0
    assert twoarm("regrade", str(out), "--out", str(new), *BRIEF, "--no-evidence").code == 0
    grown = twoarm("run", "--resume", str(new), "--repeats", "2", *PLAIN, "--no-evidence")
    assert grown.code == 0, grown.err
    assert len(runs(new)) == 8
    again = twoarm("regrade", str(out), "--out", str(new), *BRIEF, "--no-evidence")
    assert again.code == 2
    assert again.err == (
        f"twoarm: {new} has grown since its runs were graded again; choose another folder with "
        "--out\n"
    )


def test_a_second_look_at_several_candidates_is_on_the_first_screen(tmp_path: Path) -> None:
    suite = suite_of(tmp_path / "s", FASTER, arms={"third": {"env": {"HINT": "2"}}})
    out = tmp_path / "out"
    assert start(suite, out, "--repeats", "5").code == 0
    grown = twoarm("run", "--resume", str(out), "--repeats", "6", *PLAIN)
    assert grown.code == 0, grown.err
    shown = " ".join(grown.out.split())
    assert "Caveat: a second look at these runs: " in shown


def test_a_score_that_one_arm_lacks_promotes_nobody_who_is_judged_by_it() -> None:
    runs_of = []
    for number in range(12):
        for repeat in range(1, 6):
            for arm in (WITH, WITHOUT):
                ours = arm == WITH
                values = {
                    "duration_seconds": (40 if ours else 100) + number + repeat / 7,
                    "score": None if ours and repeat < 3 else 0.5 + repeat / 20 + 0.1 * ours,
                    "started_at_utc": f"2026-11-{repeat:02}T{number:02}:{10 * ours:02}:00Z",
                }
                runs_of.append(record(f"t{number}", arm, repeat, **values))
    cases: list[tuple[Any, str]] = [("duration", "promote"), ("score", "not enough data")]
    for primary, verdict in cases:
        report = library.score(runs_of, promote_by="evidence", primary=primary, resamples=100)
        assert report.promotion.verdict == verdict, (primary, report.promotion.reasons)
