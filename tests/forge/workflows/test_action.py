"""The action as a runner runs it: what is posted, what is kept, and what makes a job red."""

import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import both, lines
from tests.forge.conftest import pull, workflow_run
from tests.support.actions_runner import (
    ACTION,
    TOKEN,
    Artifacts,
    CompositeRun,
    Machine,
    event_file,
)
from tests.support.forge_stub import Stub
from tests.support.suite_files import suite_of
from twoarm.render.github import MARKER

TWOARM = str(Path(sys.executable).with_name("twoarm"))
EVENTS: dict[str, tuple[str, Any]] = {
    "push": ("push", {"ref": "refs/heads/main"}),
    "pull request": ("pull_request", {"pull_request": pull()}),
    "fork": ("pull_request", {"pull_request": pull(fork=True)}),
    "workflow run": ("workflow_run", workflow_run(fork=True)),
}
Act = Callable[..., CompositeRun]
GOOD = "score\ngood.jsonl\n"
REPORTS = {"analysis.json", "analysis.md", "report.html"}


@pytest.fixture
def artifacts() -> Artifacts:
    return {}


@pytest.fixture
def act(forge: Stub, tmp_path: Path, artifacts: Artifacts) -> Act:
    """The action for an event; the workspace has runs of a good candidate and of a slow one."""
    made: list[Machine] = []

    def run(event: str, args: str, **inputs: str) -> CompositeRun:
        name, content = EVENTS[event]
        machine = Machine(
            tmp_path / f"machine{len(made)}",
            {
                "GITHUB_EVENT_NAME": name,
                "GITHUB_REPOSITORY": "o/r",
                "GITHUB_API_URL": forge.url,
                "TWOARM_CACHE": str(tmp_path / "cache"),
            },
        )
        made.append(machine)
        machine.env["GITHUB_EVENT_PATH"] = event_file(machine, content)
        runs = [one for repeat in range(1, 6) for one in both(repeat=repeat)]
        (machine.workspace / "good.jsonl").write_bytes(lines(runs))
        for each in runs:
            each["duration_seconds"] += 200.0 * (each["arm"] == "with_skelly")
        (machine.workspace / "slow.jsonl").write_bytes(lines(runs))
        # Each is a workflow run of its own.
        kept: Artifacts = {}
        ran = CompositeRun(machine, TWOARM, {"args": args, **inputs}, kept)
        artifacts.update(kept)
        return ran

    return run


def test_a_pull_request_gets_its_comment(act: Act, forge: Stub, artifacts: Artifacts) -> None:
    ran = act("pull request", GOOD)
    assert (ran.code, ran.outputs["exit-code"], ran.outputs["promotion"]) == (0, "0", "promote")
    assert [body.partition("\n")[0] for body in forge.bodies()] == [MARKER]
    assert "Promote" in ran.machine.summary
    assert forge.tokens == {f"Bearer {TOKEN}"}
    kept = {path.name for path in artifacts["twoarm-report-default"].iterdir()}
    assert kept == REPORTS


def test_a_candidate_that_is_not_promoted_is_red_and_has_its_comment(act: Act, forge: Stub) -> None:
    ran = act("pull request", "score\nslow.jsonl")
    assert (ran.code, ran.outputs["promotion"]) == (1, "do not promote")
    assert "## ❌" in forge.bodies()[0]
    assert "::error title=twoarm" in ran.machine.log


def test_a_push_has_its_summary_and_no_comment(act: Act, forge: Stub) -> None:
    ran = act("push", GOOD)
    assert (ran.code, forge.asked) == (0, [])
    assert "Promote" in ran.machine.summary
    assert "the event `push` is not about a pull request" in ran.machine.log


@pytest.mark.parametrize("token", [None, ""])
def test_a_fork_is_green_without_a_token_that_writes(
    act: Act, forge: Stub, token: str | None
) -> None:
    forge.may_write = False
    inputs = {} if token is None else {"token": token}
    ran = act("fork", GOOD, **inputs)
    assert (ran.code, forge.comments) == (0, [])
    assert "Promote" in ran.machine.summary
    assert "::notice title=twoarm::no comment was posted" in ran.machine.log
    assert act("fork", "score\nslow.jsonl", **inputs).code == 1


def test_another_workflow_comments_for_a_fork(act: Act, forge: Stub) -> None:
    forge.pulls = [pull(fork=True)]
    assert act("workflow run", GOOD).code == 0
    assert len(forge.comments) == 1


def test_who_wants_no_comment_has_none(act: Act, forge: Stub) -> None:
    ran = act("pull request", GOOD, comment="never")
    assert (ran.code, ran.outputs["promotion"], forge.asked) == (0, "promote", [])


def test_two_comments_have_two_keys(act: Act, forge: Stub, artifacts: Artifacts) -> None:
    for key in ("codex", "claude"):
        assert act("pull request", GOOD, key=key).code == 0
    marks = [body.partition("\n")[0] for body in forge.bodies()]
    assert marks == ["<!-- twoarm report codex -->", "<!-- twoarm report claude -->"]
    assert sorted(artifacts) == ["twoarm-report-claude", "twoarm-report-codex"]


WRONG = {
    "nothing": "",
    "another command": "collect\nharbor",
    "a blank line first is none": "\n \nscore",
    "two words on a line": "score\n--promote-by evidence\ngood.jsonl",
    "its own option": "score\ngood.jsonl\n--out=x",
    "its own options": "score\ngood.jsonl\n--exit-code",
    "a typo": "score\ngood.jsonl\n--promote-bye\nevidence",
    "no such file": "score\nnope.jsonl",
    "a bad value": "score\ngood.jsonl\n--promote-by=luck",
    "a suite that is not there": "run\nnope.toml",
}


@pytest.mark.parametrize("what", WRONG)
def test_a_mistake_is_red(act: Act, forge: Stub, what: str) -> None:
    ran = act("pull request", WRONG[what])
    assert (ran.code, ran.outputs["exit-code"], ran.outputs["promotion"]) == (2, "2", "")
    assert forge.comments == []


@pytest.mark.parametrize(
    "inputs", [{"comment": "alwyas"}, {"comment": ""}, {"key": "--> @all"}, {"key": "a b"}]
)
def test_a_mistake_in_another_input_is_red(act: Act, forge: Stub, inputs: dict[str, str]) -> None:
    assert act("pull request", GOOD, **inputs).code == 2
    assert forge.comments == []


def test_arguments_are_words_and_nothing_else(act: Act, forge: Stub) -> None:
    evil = 'score\n$(touch PWNED).jsonl\n`touch PWNED`\n"; touch PWNED; "\n*\n${HOME}\n\\\n'
    ran = act("pull request", evil)
    assert ran.code == 2
    assert not (ran.machine.workspace / "PWNED").exists()
    assert "$(touch PWNED).jsonl: cannot be read" in ran.machine.log
    assert "twoarm: *: cannot be read" in act("pull request", "score\n*").machine.log


def test_a_blank_line_first_does_not_cost_the_comment(act: Act, forge: Stub) -> None:
    ran = act("pull request", f"\n{GOOD}")
    assert (ran.code, forge.comments) == (2, [])
    assert "args: begin with score or run, without a blank line before it" in ran.machine.log
    assert act("pull request", f"\n{GOOD}", comment="never").code == 0


@pytest.mark.parametrize("word", ["--help", "-h", "--version"])
def test_what_judges_nothing_promotes_nothing(act: Act, forge: Stub, word: str) -> None:
    ran = act("pull request", f"score\ngood.jsonl\n{word}")
    assert (ran.code, ran.outputs["promotion"]) == (2, "")


def test_lines_may_end_as_on_windows_and_be_empty(act: Act, forge: Stub) -> None:
    assert act("pull request", "score\r\ngood.jsonl\r\n\r\n--promote-by=gates\r\n").code == 0
    assert act("pull request", "score\nwith blank.jsonl").code == 2


# Runs.


@pytest.fixture
def runs_suite(act: Act, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """The action with `run`, for a suite whose agent does what a script says."""

    def run(event: str, script: str, **inputs: str) -> CompositeRun:
        suite = suite_of(tmp_path / "evals", script)
        return act(event, f"run\n{suite}\n--repeats=1\n--isolation=copy", **inputs)

    return run


def test_runs_are_made_and_kept_without_patches_and_workspaces(
    runs_suite: Act, forge: Stub, artifacts: Artifacts
) -> None:
    ran = runs_suite("pull request", "echo fixed > answer.txt")
    assert ran.outputs["promotion"] == "not enough data"
    assert ran.code == 3
    kept = artifacts["twoarm-runs-default"]
    assert {path.name for path in kept.iterdir()} == {
        *REPORTS,
        "collected.jsonl",
        "receipt.json",
        "run-pages",
    }
    assert Path(ran.outputs["collected"]).read_bytes() == (kept / "collected.jsonl").read_bytes()
    assert forge.asked == []


def test_no_agent_runs_for_a_fork_which_is_green_and_says_why(
    runs_suite: Act, forge: Stub, artifacts: Artifacts
) -> None:
    ran = runs_suite("fork", "exit 1")
    assert (ran.code, ran.outputs["exit-code"], ran.outputs["collected"]) == (0, "0", "")
    assert "No agent was run for this pull request: it comes from a fork" in ran.machine.summary
    assert "::notice title=twoarm::No agent was run" in ran.machine.log
    assert (artifacts, forge.asked) == ({}, [])


def test_no_agent_runs_for_a_bot_without_secrets(
    runs_suite: Act, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EVENTS, "dependabot", EVENTS["pull request"])
    before = Machine.__init__

    def machine(self: Machine, folder: Path, variables: dict[str, str]) -> None:
        before(self, folder, {**variables, "GITHUB_ACTOR": "dependabot[bot]"})

    monkeypatch.setattr(Machine, "__init__", machine)
    ran = runs_suite("dependabot", "exit 1")
    assert ran.code == 0
    assert "it is Dependabot's" in ran.machine.summary


# An agent that writes into every file that a later step of its job reads.
EVIL = """
for file in "$RUNNER_FILES"/*; do
  case "$file" in
    *_env_*) printf 'BASH_ENV=%s\\n' "$LOOT/steal.sh" >> "$file" ;;
    *_path_*) printf '%s\\n' "$LOOT" >> "$file" ;;
    *_output_*) printf 'exit-code=0\\npromotion=promote\\n' >> "$file" ;;
  esac
done
cat /proc/*/environ 2> /dev/null | tr '\\0' '\\n' >> "$LOOT/stolen"
echo fixed > answer.txt
"""


@pytest.mark.parametrize("comment", ["auto", "never"])
def test_an_agent_that_takes_over_later_steps_finds_no_token(
    act: Act, forge: Stub, tmp_path: Path, comment: str
) -> None:
    loot = tmp_path / "loot"
    loot.mkdir()
    (loot / "steal.sh").write_text(f"env >> '{loot}/stolen'; echo taken >> '{loot}/taken'\n")
    files = tmp_path / "machine0" / "temp" / "_runner_file_commands"
    env = {"RUNNER_FILES": str(files), "LOOT": str(loot)}
    suite = suite_of(tmp_path / "evals", EVIL, agent={"env": env})
    # Of nobody else: the agent can see what other tests run at the same time.
    token = f"ghs_of_{tmp_path.name}"
    args = f"run\n{suite}\n--repeats=1\n--isolation=copy"
    first = act("pull request", args, comment=comment, token=token)
    # The last step of that job was taken over: the attack works, and there is nothing to take.
    assert (loot / "taken").exists()
    assert token not in (loot / "stolen").read_text()
    assert forge.asked == []
    # The job with the token is on another machine; what crosses is scored again.
    collected = Path(first.outputs["collected"])
    shutil.copy(collected, tmp_path / "collected.jsonl")
    before = (loot / "stolen").read_bytes()
    second = act(
        "pull request",
        f"score\n{tmp_path}/collected.jsonl\n--candidate=with\n--baseline=without",
        token=token,
    )
    assert second.outputs["promotion"] == "not enough data"
    assert len(forge.comments) == 1
    assert (loot / "stolen").read_bytes() == before


# The file itself.


def test_no_expression_is_in_a_shell_line() -> None:
    text = ACTION.read_text()
    for step in yaml.safe_load(text)["runs"]["steps"]:
        assert "${{" not in step.get("run", "")
        if "uses" in step:
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step["uses"])


def test_the_token_goes_to_one_step() -> None:
    steps = yaml.safe_load(ACTION.read_text())["runs"]["steps"]
    with_token = [step["id"] for step in steps if "inputs.token" in str(step)]
    assert with_token == ["comment"]
    (step,) = [step for step in steps if step.get("id") == "comment"]
    # No output of a step, which an agent may have written, decides whether it runs.
    assert "steps." not in step["if"]
