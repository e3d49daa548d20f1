"""Words that a command does not know: each is answered with the nearest, or where it belongs."""

import pytest

from tests.conftest import twoarm

MISTYPED = [
    (["scor", "r.jsonl"], "no command `scor`; did you mean `score`?"),
    (["colect", "harbor"], "no command `colect`; did you mean `collect`?"),
    (["zzz"], "no command `zzz`; the commands are demo, collect, "),
    (["score", "r.jsonl", "--canddate", "x"], "no option --canddate; did you mean --candidate?"),
    (["score", "--promoteby", "x", "r.jsonl"], "no option --promoteby; did you mean --promote-by?"),
    (["score", "r.jsonl", "--promot_by=x"], "no option --promot_by; did you mean --promote-by?"),
    (["score", "r.jsonl", "--xyzzy"], "twoarm: no option --xyzzy (see twoarm score --help)"),
    (["score", "r.jsonl", "--level", "95%"], "expected a number, got `95%`; did you mean 0.95?"),
    (["score", "r.jsonl", "--level", "high"], "expected a number, got `high` (see "),
    (["collect", "table", "--arm-ky", "x"], "no option --arm-ky; did you mean --arm-key?"),
    (["--versoin"], "no option --versoin; did you mean --version?"),
    ([], "which command? to begin with, twoarm demo scores a bundled example (see twoarm --help)"),
    # An option of another command, and the beginning of one.
    (["score", "r.jsonl", "--only", "x"], "no option --only; it belongs to twoarm run (see "),
    (["--only", "x"], "no option --only; it belongs to twoarm run (see twoarm --help)"),
    (["plan", "--arm-key=x"], "no option --arm-key; it belongs to twoarm collect (see twoarm plan"),
    (
        ["check", "r", "--full"],
        "no option --full; it belongs to twoarm demo, score, run, merge, regrade and comment",
    ),
    (["score", "r.jsonl", "--cand", "x"], "no option --cand; did you mean --candidate? (see "),
    (
        ["score", "r.jsonl", "--margin", "5"],
        "no option --margin; did you mean --margin-success or --margin-ratio?",
    ),
    (["--vers"], "no option --vers; did you mean --version?"),
    (["run", "s.toml", "--budget", "x"], "--budget: expected a number, got `x` (see twoarm run"),
    (["run", "s.toml", "--jobs", "1.5"], "--jobs: expected a whole number, got `1.5` (see "),
    (["plan", "--candidate", "x"], "--candidate has no effect without FILE"),
    (["plan"], "--detect: missing; which change is to be seen, such as -20%?"),
    (["schema"], "required: NAME (see twoarm schema --help)"),
    (["schema", "recrod"], "`recrod`; did you mean `record`?"),
    (["score", "r.jsonl", "--format", "jsn"], "`jsn`; did you mean `json`?"),
    (["score", "r.jsonl", "--format", "pdf"], "`pdf`; expected one of text, json, markdown, html,"),
    (["score", "r.jsonl", "--promote-by", "gate"], "`gate`; did you mean `gates`?"),
    (["collect", "habor", "--arm", "a=."], "no format `habor`; did you mean `harbor`?"),
]


@pytest.mark.parametrize(("given", "answer"), MISTYPED, ids=lambda given: " ".join(given)[:40])
def test_a_mistyped_word_is_answered_with_the_nearest(given: list[str], answer: str) -> None:
    result = twoarm(*given)
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert answer in result.err


def test_a_mistyped_word_cannot_speak_to_the_terminal_or_the_runner() -> None:
    for given in (["\x1b[31m::error::x"], ["score", "--\x1b[31m", "x"], ["schema", "::error::\n"]):
        result = twoarm(*given)
        assert result.code == 2
        assert "\x1b" not in result.err
        assert not any(line.lstrip().startswith("::") for line in result.err.splitlines())


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        (["--margin-success", "5", "--promote-by", "margin"], "got 5.0; did you mean 0.05?"),
        (["--margin-ratio", "10", "--promote-by", "margin"], "got 10.0; did you mean 0.1?"),
        (["--level", "95"], "got 95.0; did you mean 0.95?"),
        (["--level", "99.9"], "got 99.9; did you mean 0.999?"),
        (["--margin-ratio", "-1", "--promote-by", "margin"], "below 1, got -1.0\n"),
        (["--level", "9500"], "0.9999, got 9500.0\n"),
        (["--level", "5"], "0.9999, got 5.0\n"),
    ],
)
def test_a_percentage_is_asked_about(given: list[str], answer: str) -> None:
    assert answer in twoarm("demo", *given).err
