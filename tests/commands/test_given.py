"""What was given, and nothing else; what has no effect is refused; help in groups."""

from pathlib import Path

import pytest

from tests.conftest import twoarm
from twoarm.commands import cli
from twoarm.commands.console import Streams
from twoarm.commands.given import RULES

REPORT = ["how to promote", "evidence", "output"]
GROUPS = {
    "score": ["what to compare", *REPORT],
    "check": ["what to check"],
    "collect": ["what to collect", "how to read it", "tables", "output"],
    "plan": ["the pilot", "what to see", "cost", "without a pilot", "evidence", "output"],
    "calibrate": ["what to deal", "how to deal", *REPORT],
    "run": ["what to run", "instead", "limits", *REPORT],
    "regrade": ["what to grade", *REPORT],
    "show": ["what to show"],
    "comment": ["what to compare", *REPORT, "the comment"],
    "demo": REPORT,
}


@pytest.mark.parametrize("command", GROUPS)
def test_help_is_in_groups(command: str) -> None:
    text = twoarm(command, "--help").out
    listed = text[text.index("\noptions:") :].splitlines()
    titles = [line[:-1] for line in listed if line.endswith(":") and line[0] != " "]
    assert [title for title in titles if title not in ("exit codes", "examples")] == [
        "options",
        *GROUPS[command],
    ]
    # Nothing but the help itself stands outside of them.
    assert text.partition("\noptions:\n")[2].partition("\n\n")[0].count("\n") == 0


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (["score", "a"], {"files": ["a"]}),
        (["score", "a", "--format", "text"], {"files": ["a"], "format": "text"}),
        (["plan", "--detect", "-5%"], {"detect": "-5%"}),
        (["run"], {}),
        (["run", "--tag", "a", "--tag", "b"], {"tag": ["a", "b"]}),
        (["collect", "table"], {"format": "table"}),
        (["show", "a"], {"folder": "a"}),
        (["show", "a", "t", "2"], {"folder": "a", "task": "t", "repeat": 2}),
        (["demo"], {}),
        (["demo", "--no-evidence"], {"evidence": False}),
    ],
)
def test_what_is_not_given_is_not_there(words: list[str], given: dict[str, object]) -> None:
    assert cli._parse(words, Streams()) == (words[0], given)


@pytest.mark.parametrize("command", RULES)
def test_a_rule_is_about_options_that_its_command_has(command: str) -> None:
    _, commands = cli._parsers([command], Streams())
    names = {action.dest for action in commands[command]._actions}
    for rule in RULES[command]:
        assert {*rule.options, *rule.without, *(rule.all_but or ())} <= names
        assert rule.beside in names | {""}
        assert rule.beside or rule.without


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["score", "a", "--run-pages", "none"], "--run-pages has no effect without --out"),
        (["run", "--dry-run", "--level", "0.9"],
         "--level has no effect with --dry-run without --looks"),
        (["demo", "--print", "--format", "text"], "--format has no effect with --print"),
        (["run", "--status", "a", "--format", "text"], "--format has no effect with --status"),
        (["run", "--resume", "a", "--status", "b"], "--resume has no effect with --status"),
        (["run", "--stop", "a", "--status", "b"], "--stop has no effect with --status"),
        (["run", "--resume", "a", "--dry-run"], "--resume has no effect with --dry-run"),
        (["run", "--resume", "a", "--demo"], "--resume has no effect with --demo"),
        (["run", "a", "--no-evidence", "--margin-success", "0.1"],
         "--margin-success has no effect with --no-evidence"),
        (["plan", "--detect", "-5%", "--baseline", "a"], "--baseline has no effect without FILE"),
        (["plan", "--detect", "-5%", "--skip-bad"], "--skip-bad has no effect without FILE"),
        (["show", "a", "t", "--arm", "b"], "--arm has no effect without REPEAT"),
    ],
)  # fmt: skip
def test_what_has_no_effect_is_said_with_what_it_needs(words: list[str], complaint: str) -> None:
    result = twoarm(*words)
    assert (result.code, result.out, result.err) == (2, "", f"twoarm: {complaint}\n")


@pytest.mark.parametrize(
    ("words", "near"),
    [(["score", "a", "--runs", "all"], "--run-pages"), (["demo", "--runs"], "--print")],
)
def test_an_option_of_another_name_leads_to_the_nearest(words: list[str], near: str) -> None:
    result = twoarm(*words)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"twoarm: no option --runs; did you mean {near}?")


def test_no_command_sees_what_argparse_makes() -> None:
    for path in Path(cli.__file__).parent.glob("*.py"):
        assert "Namespace" not in path.read_text(encoding="utf-8"), path.name


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["score", "a", "--baseline", "x", "--baseline", "y"],
         "--baseline: given twice, as `x` and `y`; give it once"),
        (["demo", "--seed", "1", "--seed", "2"], "--seed: given twice, as `1` and `2`"),
        (["run", "--resume", "a", "--resume", "b"], "--resume: given twice, as `a` and `b`"),
    ],
)  # fmt: skip
def test_an_option_that_is_given_twice_with_two_values_is_refused(
    words: list[str], message: str
) -> None:
    result = twoarm(*words)
    assert result.code == 2
    assert message in result.err
    assert len(result.err.splitlines()) == 1


def test_an_option_may_be_given_twice_with_one_value() -> None:
    assert twoarm("demo", "--seed", "1", "--seed", "1", "--no-evidence").code == 2
    assert twoarm("demo", "--seed", "1", "--seed", "1").code == 0
