"""The suite: what is read, and what every mistake in it is told."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.conftest import twoarm
from tests.support.suite_files import suite_of
from twoarm.errors import InputError
from twoarm.run.suite import fill, fill_shell, suite_schema
from twoarm.run.suite_file import SuiteError, read_suite

TASK = {"id": "one", "prompt": "Do it.", "acceptance_command": "true"}


def checks(commands: Any) -> dict[str, Any]:
    return {"acceptance_command": None, "acceptance_commands": commands}


# What is changed in a good suite, the key that is named, and what is said of it.
BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"agnet": {}}, "agnet", "unknown key; did you mean `agent`?"),
    ({"arms": {"with": {"arg": []}}}, "arms.with.arg", "unknown key; did you mean `args`?"),
    ({"image": "bb:1"}, "image", "unknown key; it belongs in workspace or [[tasks]]"),
    ({"workspace": {"mounts": []}}, "workspace.mounts", "unknown key; it belongs in agent"),
    (
        {"workspace": {"acceptance_network": "yes"}},
        "workspace.acceptance_network",
        'expected true or false, got "yes"',
    ),
    ({"limits": {"memory_mb": 1}}, "limits.memory_mb", "megabytes, from 6 to 100,000,000, got 1"),
    ({"zzz": 1}, "zzz", "unknown key; keys are suite_id, description, baseline, tasks_from, "),
    ({"limits": {"timeout_seconds": "long"}}, "limits.timeout_seconds", 'got "long"'),
    ({"limits": {"timeout_seconds": 0}}, "limits.timeout_seconds", "seconds above 0"),
    ({"limits": {"retries": -1}}, "limits.retries", "an integer from 0 to 100, got -1"),
    ({"limits": {"budget_usd": True}}, "limits.budget_usd", "dollars above 0, got true"),
    ({"limits": {"budget_usd": 1, "trial_usd": 2}}, "limits.trial_usd", "more than budget_usd"),
    ({"agent": None}, "agent", "missing"),
    ({"agent": {"program": None}}, "agent.program", "missing"),
    ({"agent": {"argv": []}}, "agent.argv", "missing"),
    ({"agent": {"program": "codex"}}, "agent.argv", "only with program"),
    (
        {"agent": {"program": "comand"}},
        "agent.program",
        "no agent `comand`; did you mean `command`?",
    ),
    (
        {"agent": {"program": "zzz"}},
        "agent.program",
        "no agent `zzz`; the agents are claude-code, ",
    ),
    ({"agent": {"format": "codex"}}, "agent.output", "missing"),
    ({"agent": {"output": "events.jsonl"}}, "agent.format", "missing"),
    ({"agent": {"argv": ["x", "{promt}"]}}, "agent.argv", "no placeholder `{promt}`"),
    ({"agent": {"secrets": ["A=B"]}}, "agent.secrets[0]", "the name of an environment variable"),
    ({"agent": {"home": {"../x": "agent.sh"}}}, "agent.home", "not a path inside"),
    ({"agent": {"home": {"x": "gone"}}}, "agent.home.x", "no file `gone`"),
    ({"workspace": None}, "workspace", "missing"),
    ({"workspace": {"repo": "app"}}, "workspace", "either repo or copy"),
    (
        {"workspace": {"image": "it", "dockerfile": "Dockerfile"}},
        "workspace",
        "either image or dockerfile",
    ),
    ({"workspace": {"copy": "gone"}}, "workspace.copy", "no folder `gone`"),
    ({"baseline": None}, "baseline", "missing; name the arm without the change"),
    ({"baseline": "witout"}, "baseline", "no arm `witout`; arms are `with`, `without`"),
    ({"arms": {"with": {"env": None}}}, "arms", "do not differ"),
    ({"arms": {"without": None}}, "arms", "expected two arms or more, found `with`"),
    ({"arms": {"third": {}}}, "arms", "`without`, `third` do not differ; a comparison needs"),
    ({"arms": {"a/b": {}}}, "arms.a/b", "a name of letters"),
    ({"arms": {"with": {"remove": ["/etc"]}}}, "arms.with.remove", "not a path inside"),
    ({"arms": {"with": {"files": {".git/x": "app"}}}}, "arms.with.files", "not a path inside"),
    ({"arms": {"with": {"files": {"x": "gone"}}}}, "arms.with.files.x", "no file `gone`"),
    ({"arms": {"with": {"build_commands": ["make"]}}}, "arms.with.build_commands", "source"),
    ({"arms": {"with": {"prompt_template": "{x}"}}}, "arms.with.prompt_template", "`{x}`"),
    ({"tasks": []}, "tasks", "no tasks"),
    ({"tasks": [TASK | {"prompt": "a\0b"}]}, "tasks[0].prompt", "a null character"),
    ({"agent": {"args": ["a\0b"]}}, "agent.args[0]", "a null character"),
    ({"tasks": [TASK, TASK]}, "tasks[1].id", "`one` appears twice"),
    ({"tasks": [TASK | {"id": "../x"}]}, "tasks[0].id", "a name of letters"),
    ({"tasks": [TASK | {"id": ".hidden"}]}, "tasks[0].id", "a name of letters"),
    ({"tasks": [TASK | {"prompt_file": "p"}]}, "tasks[0]", "either prompt or prompt_file"),
    (
        {"tasks": [{"id": "one", "acceptance_command": "true", "prompt_file": "gone.md"}]},
        "tasks[0].prompt_file",
        "`gone.md` is missing or empty; it belongs next to the suite or in the repository",
    ),
    ({"tasks": [TASK | {"acceptance_files": ["../t"]}]}, "tasks[0].acceptance_files", "inside"),
    ({"tasks": [{"id": "one", "prompt": "p"}]}, "tasks[0]", "write either acceptance_command or"),
    ({"tasks": [TASK | {"acceptance_commands": {"a": "x"}}]}, "tasks[0]", "or acceptance_commands"),
    ({"tasks": [TASK | checks({})]}, "tasks[0]", "write either acceptance_command or"),
    ({"tasks": [TASK | checks({"a b": "x"})]}, "tasks[0].acceptance_commands.a b", "a name of"),
    (
        {"tasks": [TASK | checks({"::error::": "x"})]},
        "tasks[0].acceptance_commands.::error::",
        "a name of letters",
    ),
    ({"tasks": [TASK | checks({"a": ""})]}, "tasks[0].acceptance_commands.a", "not empty"),
    ({"tasks": [TASK | checks(["x"])]}, "tasks[0].acceptance_commands", "expected a table"),
    (
        {"tasks": [TASK | checks({f"c{i}": "x" for i in range(51)})]},
        "tasks[0].acceptance_commands",
        "51 commands; at most 50",
    ),
]


@pytest.mark.parametrize(("changed", "key", "said"), BAD, ids=[key for _, key, _ in BAD])
def test_a_mistake_is_told_with_file_and_key(
    tmp_path: Path, changed: dict[str, Any], key: str, said: str
) -> None:
    path = suite_of(tmp_path, **changed)
    with pytest.raises(SuiteError) as raised:
        read_suite(str(path))
    found = [problem for problem in raised.value.problems if problem.field == key]
    assert found, raised.value
    assert found[0].where == str(path)
    assert said in found[0].message


def test_every_problem_is_listed(tmp_path: Path) -> None:
    path = suite_of(tmp_path, zzz=1, baseline=3, limits={"retries": "x"})
    with pytest.raises(SuiteError) as raised:
        read_suite(str(path))
    assert len(raised.value.problems) == 3


def test_toml_and_json_are_the_same_suite(tmp_path: Path) -> None:
    there = read_suite(str(suite_of(tmp_path)))
    (tmp_path / "suite.toml").write_text(
        """
suite_id = "fake"
baseline = "without"
[agent]
program = "command"
argv = ["sh", "{suite}/agent.sh"]
[workspace]
copy = "app"
[limits]
retry_seconds = 0
timeout_seconds = 20
grace_seconds = 1
[arms.with]
env = { HINT = "1" }
[arms.without]
[[tasks]]
id = "one"
prompt = "Do one."
acceptance_command = "test -f answer.txt"
[[tasks]]
id = "two"
prompt = "Do two."
acceptance_command = "test -f answer.txt"
"""
    )
    here = read_suite(str(tmp_path / "suite.toml"))
    assert here.suite == there.suite
    assert here.candidates == ("with",)


def test_a_folder_is_no_suite(tmp_path: Path) -> None:
    result = twoarm("run", str(tmp_path))
    said = f"twoarm: {tmp_path}: a folder, not a suite; name a .toml or .json file\n"
    assert (result.code, result.err) == (2, said)


def test_only_the_name_of_an_unknown_agent_is_a_problem(tmp_path: Path) -> None:
    path = suite_of(tmp_path, agent={"program": "comand"})
    with pytest.raises(SuiteError) as raised:
        read_suite(str(path))
    assert len(raised.value.problems) == 1


def test_a_file_that_is_no_suite(tmp_path: Path) -> None:
    for name, text, said in (
        ("a.toml", "x = ", "not TOML"),
        ("a.json", "{", "not JSON"),
        ("b.toml", b"\xff", "not UTF-8"),
        ("c.json", "[]", "expected a table, got an array"),
    ):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        with pytest.raises(InputError, match=said):
            read_suite(str(path))
    with pytest.raises(InputError, match="cannot be read"):
        read_suite(str(tmp_path / "gone.toml"))


def test_tasks_of_another_file_come_first_with_prompts_beside_it_or_in_the_repository(
    tmp_path: Path,
) -> None:
    (tmp_path / "other" / "prompts").mkdir(parents=True)
    (tmp_path / "other" / "prompts" / "a.md").write_text("Do a.")
    other = {
        "suite_id": "theirs",
        "description": "as it is",
        "tasks": [
            {
                "id": "a",
                "prompt_file": "prompts/a.md",
                "acceptance_command": "true",
                "setup_commands": ["true"],
                "timeout_seconds": 900,
                "tags": ["sql"],
            },
            {"id": "b", "prompt_file": "b.md", "acceptance_command": "true"},
        ],
    }
    (tmp_path / "other" / "suite.json").write_text(json.dumps(other))
    path = suite_of(tmp_path, tasks_from="other/suite.json")
    (tmp_path / "app" / "b.md").write_text("Do b.")
    checked = read_suite(str(path))
    assert [task.id for task in checked.tasks] == ["a", "b", "one", "two"]
    assert checked.prompts["a"] == "Do a."
    assert checked.prompts["b"] == "Do b."


def test_a_doubled_brace_is_a_brace_and_a_shell_keeps_its_own() -> None:
    assert fill("{prompt} {{prompt}} {}", {"prompt": "p"}) == "p {prompt} {}"
    values = {"suite": "s", "workspace": "w", "build": "b"}
    told = "go build -o {build}/x; echo ${build} {print}"
    assert fill_shell(told, values) == "go build -o b/x; echo ${build} {print}"


def test_the_schema_is_printed_and_holds_for_a_good_suite(tmp_path: Path) -> None:
    result = twoarm("schema", "suite")
    assert json.loads(result.out) == suite_schema()
    jsonschema.Draft202012Validator.check_schema(suite_schema())
    validator = jsonschema.Draft202012Validator(suite_schema())
    good = json.loads(suite_of(tmp_path).read_text())
    validator.validate(good)
    assert not validator.is_valid(good | {"zzz": 1})


def test_every_key_has_a_meaning_in_the_schema() -> None:
    schema = suite_schema()
    tables = [schema, *schema["$defs"].values()]
    without = [key for table in tables for key, field in table["properties"].items()
               if "description" not in field]  # fmt: skip
    assert without == []
