"""Was the change used: what is a command, what matches a pattern, and how often it was."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support import independent_calls
from tests.support.collect_fixtures import FIXTURES, changed, changed_lines, collected, copied, only
from tests.support.independent_calls import Counted
from twoarm.errors import UsageError
from twoarm.files.zstd import zipfile
from twoarm.programs.shell import commands
from twoarm.programs.uptake import Call, Calls, Pattern, count_uses, tally, tally_failed
from twoarm.runs.record import MOST_TOOLS

# Shell commands ----------------------------------------------------------------------------------

COMMANDS = [
    ("skelly map src", ["skelly map src"]),
    ("skelly   'map'  \"src dir\"", ["skelly map src dir"]),
    ("sk'elly' ma\\p", ["skelly map"]),
    (
        "cd app && skelly map; ls | skelly sort || true",
        ["cd app", "skelly map", "ls", "skelly sort", "true"],
    ),
    ("ls\nskelly map &\n", ["ls", "skelly map"]),
    ("bash -c 'cd x && skelly map'", ["bash -c cd x && skelly map", "cd x", "skelly map"]),
    ("/bin/bash -lc \"skelly 'a b'\"", ["/bin/bash -lc skelly 'a b'", "skelly a b"]),
    ("bash -o pipefail -c 'skelly x'", ["bash -o pipefail -c skelly x", "skelly x"]),
    ("sh -c \"bash -c 'skelly x'\"", ["sh -c bash -c 'skelly x'", "bash -c skelly x", "skelly x"]),
    ("bash script.sh -c 'skelly x'", ["bash script.sh -c skelly x"]),
    ('eval "skelly x"', ["eval skelly x", "skelly x"]),
    ("echo $(skelly x | head)", ["skelly x", "head", "echo $(skelly x | head)"]),
    ('echo "$(skelly x)"', ["skelly x", "echo $(skelly x)"]),
    ("echo `skelly x`", ["echo `skelly x`", "skelly x"]),
    ("diff <(skelly a) <(skelly b)", ["skelly a", "skelly b", "diff <(skelly a) <(skelly b)"]),
    ("(cd x; skelly y)", ["cd x", "skelly y"]),
    ("if skelly x; then echo y; fi", ["skelly x", "echo y", "fi"]),
    ("for f in a b; do skelly $f; done", ["for f in a b", "skelly $f", "done"]),
    ("! skelly x", ["skelly x"]),
    ("skelly x > out.txt 2>&1 < in.txt", ["skelly x"]),
    ("skelly x &> log", ["skelly x"]),
    ("skelly 2 >> log", ["skelly 2"]),
    ("KEY=1 skelly x", ["KEY=1 skelly x", "skelly x"]),
    (
        "sudo -u me env A=1 skelly x",
        ["sudo -u me env A=1 skelly x", "env A=1 skelly x", "A=1 skelly x", "skelly x"],
    ),
    ("timeout -k 5 30s skelly x", ["timeout -k 5 30s skelly x", "skelly x"]),
    ("ls | xargs -n 1 skelly map", ["ls", "xargs -n 1 skelly map", "skelly map"]),
    ("sudo bash -c 'skelly x'", ["sudo bash -c skelly x", "bash -c skelly x", "skelly x"]),
    # What is no command.
    ("echo 'skelly x; skelly y'", ["echo skelly x; skelly y"]),
    ("echo a # skelly x", ["echo a"]),
    ("echo a#b", ["echo a#b"]),
    ("cat <<EOF\nskelly x\nEOF\nls", ["cat", "ls"]),
    ("cat <<-'END' > f\n\tskelly x\n\tEND\nls", ["cat", "ls"]),
    ("cat <<< skelly", ["cat"]),
    ("grep skelly README.md", ["grep skelly README.md"]),
    # What no shell would take.
    ("echo 'open", ["echo open"]),
    ('echo "open', ["echo open"]),
    ("echo $(open", ["open", "echo $(open"]),
    ("", []),
    ("  \n ; ", []),
]


@pytest.mark.parametrize(("text", "expected"), COMMANDS)
def test_the_commands_inside_a_command_are_found(text: str, expected: list[str]) -> None:
    assert [" ".join(words) for words in commands(text)] == expected


@pytest.mark.parametrize(
    "text",
    [
        "$(" * 100_000,
        "`" * 100_001,
        "bash -c '" * 50_000,
        "((((" * 100_000,
        "\\" * 100_001,
        '"' * 99_999,
        "<" * 99_999,
    ],
)
def test_no_command_is_too_deep_or_too_long(text: str) -> None:
    assert isinstance(list(commands(text)), list)


def test_what_comes_after_a_million_characters_is_not_looked_at() -> None:
    assert [" ".join(words)[:6] for words in commands("a " * 2**19 + "; skelly x")] == ["a a a "]


# Patterns ----------------------------------------------------------------------------------------


def bash(command: str) -> Call:
    return Call(name="Bash", asked={"command": command})


MATCHES = [
    ("tool:mcp__search__*", Call(name="mcp__search__query"), True),
    ("tool:mcp__search__*", Call(name="mcp__other__query"), False),
    ("tool:Read", Call(name="read"), False),
    ("tool:[RG]*", Call(name="Grep"), True),
    ("command:skelly *", bash("cd x && skelly map"), True),
    ("command:skelly *", bash("skelly"), True),
    ("command:skelly *", bash("skellyx map"), False),
    ("command:skelly", bash("skelly map"), False),
    ("command:skelly *", bash("/opt/bin/skelly map"), True),
    ("command:/opt/*/skelly *", bash("/opt/bin/skelly map"), True),
    ("command:skelly *", bash('sk"elly" map'), True),
    ("command:skelly *", bash("echo skelly map"), False),
    ("command:skelly *", bash("bash -lc 'ls | skelly map'"), True),
    ("command:* --fast*", bash("skelly --fast x"), True),
    ("command:[]s]kelly *", bash("skelly map"), True),
    ("command:[!]a]kelly *", bash("skelly map"), True),
    ("command:skelly [", bash("skelly ["), True),
    ("command:skelly *", Call(name="Read", asked={"command": "skelly map"}), False),
    ("command:skelly *", Call(name="bash", asked={"cmd": "skelly map"}), True),
    ("command:skelly *", Call(name="exec_command", asked={"cmd": "skelly map"}), True),
    ("command:skelly *", Call(name="bash_command", asked={"keystrokes": "skelly map\n"}), True),
    ("command:skelly *", Call(name="Bash", asked={"command": ["skelly"]}), False),
    ("skill:pdf", Call(name="Skill", asked={"skill": "pdf"}), True),
    ("skill:pdf", Call(name="skill", asked={"name": "pdf"}), True),
    ("skill:pdf", Call(name="skill", asked={"command": "pdf"}), True),
    ("skill:pdf", Call(name="activate_skill", asked={"name": "pdf"}), True),
    ("skill:p*", Call(name="Skill", asked={"skill": "docx"}), False),
    ("skill:pdf", Call(name="Bash", asked={"skill": "pdf"}), False),
]


@pytest.mark.parametrize(("pattern", "call", "matches"), MATCHES)
def test_a_pattern_is_matched_as_a_shell_would(pattern: str, call: Call, matches: bool) -> None:
    assert Pattern(pattern).matches(call) is matches


@pytest.mark.parametrize("text", ["skelly", "tool:", "tools:x", "", ":x", "TOOL:x"])
def test_a_pattern_says_what_it_is_for(text: str) -> None:
    with pytest.raises(UsageError, match="write tool:NAME, command:COMMAND or skill:NAME"):
        Pattern(text)


def calls(*made: Call, **more: Any) -> Calls:
    return Calls(**{"made": made, "shows": ("tool", "command"), "tells_failures": True, **more})


def test_a_call_is_one_use_whatever_matches_it() -> None:
    patterns = [Pattern("tool:Bash"), Pattern("command:skelly *")]
    found = count_uses(calls(bash("skelly a && skelly b"), bash("ls"), Call(name="Read")), patterns)
    assert found.count == 2
    assert found.by_pattern == {"tool:Bash": 2, "command:skelly *": 1}
    assert found.failed == 0


def test_uses_that_failed_are_counted_where_it_is_told() -> None:
    made = (Call(name="x", failed=True), Call(name="x", failed=False), Call(name="y", failed=True))
    assert count_uses(calls(*made), [Pattern("tool:x")]).failed == 1
    assert count_uses(calls(*made, tells_failures=False), [Pattern("tool:x")]).failed is None


def test_what_an_output_does_not_show_is_null_and_never_zero() -> None:
    assert count_uses(None, [Pattern("tool:x")]).count is None
    shown = calls(Call(name="x"), shows=("tool",))
    assert count_uses(shown, [Pattern("tool:x")]).count == 1
    assert count_uses(shown, [Pattern("tool:y")]).count == 0
    assert count_uses(shown, [Pattern("tool:x"), Pattern("skill:y")]).count is None


def test_a_sub_agent_out_of_sight_may_have_used_it() -> None:
    assert count_uses(calls(Call(name="x"), hidden=True), [Pattern("tool:y")]).count is None
    assert count_uses(calls(Call(name="x"), hidden=True), [Pattern("tool:x")]).count == 1
    inner = calls(Call(name="task"), below=(Call(name="x"),))
    assert count_uses(inner, [Pattern("tool:x")]).count == 1


# Tools -------------------------------------------------------------------------------------------


def test_a_record_names_at_most_fifty_tools() -> None:
    made = [Call(name=f"t{i:02}", failed=i in (0, 55)) for i in range(60)] + [Call(name="t59")]
    found = tally(made)
    assert len(found) == MOST_TOOLS
    assert found["t59"] == 2
    assert found["t00"] == 1
    assert found["(other)"] == 11
    assert sum(found.values()) == 61
    assert tally_failed(calls(*made), found) == {"(other)": 1, "t00": 1}


def test_fifty_tools_are_all_named() -> None:
    found = tally([Call(name=f"t{i:02}") for i in range(50)])
    assert set(found) == {f"t{i:02}" for i in range(50)}


def test_a_tool_without_a_name_and_one_with_an_endless_one_are_counted() -> None:
    assert tally([Call(name=""), Call(name="x" * 1000)]) == {"(other)": 1, "x" * 200: 1}


def test_failures_that_nobody_tells_are_null() -> None:
    assert tally_failed(calls(Call(name="x"), tells_failures=False), {"x": 1}) is None


# Every fixture, counted twice --------------------------------------------------------------------

PATTERNS = ("tool:*", "tool:[Bb]ash", "command:printf *", "command:test *", "command:grep *")
COUNTERS: dict[str, Callable[[Path], Counted | None]] = {
    "claude-code": independent_calls.claude_code,
    "codex": independent_calls.codex,
    "gemini-cli": independent_calls.gemini_cli,
    "mini-swe-agent": independent_calls.mini_swe_agent,
    "opencode": independent_calls.opencode,
}
OUTPUTS = (
    "events.jsonl",
    "stream.jsonl",
    "result.json",
    "stdout.json",
    "stdout.txt",
    "export.json",
)


def output(folder: Path) -> Path:
    trajectories = list(folder.glob("*.traj.json"))
    return (
        trajectories[0]
        if trajectories
        else next(folder / name for name in OUTPUTS if (folder / name).exists())
    )


CASES = [
    (json.loads(path.read_text())["format"], path.parent)
    for path in sorted(FIXTURES.rglob("expected.json"))
]
FOLDERS = [(name, folder) for name, folder in CASES if name in COUNTERS]


def same(record: dict[str, Any], found: Counted | None) -> None:
    if found is None:
        assert "tool_calls" not in record
        assert "failed_tool_calls" not in record
        return
    assert record["tool_calls"] == dict(found.tools)
    assert record.get("failed_tool_calls") == (None if found.failed is None else dict(found.failed))


def uses(pattern: str, found: Counted | None) -> int | None:
    """How often the calls match one of PATTERNS, looked at as text."""
    if found is None:
        return None
    kind, _, wanted = pattern.partition(":")
    if kind == "tool":
        names = {"*": set(found.tools), "[Bb]ash": {"Bash", "bash"}}[wanted]
        return sum(found.tools[name] for name in names)
    if found.commands is None:
        return None
    return sum(command.startswith(wanted.removesuffix("*")) for command in found.commands)


@pytest.mark.parametrize(
    ("name", "folder"), FOLDERS, ids=lambda value: getattr(value, "name", value)
)
def test_calls_equal_an_independent_count(name: str, folder: Path, tmp_path: Path) -> None:
    found = COUNTERS[name](output(folder))
    for part in (".", *json.loads((folder / "expected.json").read_text()).get("beside", ())):
        source = (folder / part).resolve()
        shutil.copytree(source, tmp_path / source.name)

    def record(**options: Any) -> dict[str, Any]:
        every = collected(name, tmp_path, **options)
        (one,) = (one for one in every if one["task_id"] == folder.name)
        return one

    same(record(), found)
    # What sub-agents call is a use, too, but no call of the agent's own.
    below = [COUNTERS[name](path) for path in folder.glob("export.*.json")]
    for pattern in PATTERNS:
        parts = [uses(pattern, one) for one in (found, *below)]
        expected = None if None in parts else sum(one for one in parts if one)
        assert record(uptake=[pattern]).get("uptake_count") == expected, pattern


def samples(folder: Path) -> Iterator[Any]:
    for path in sorted(folder.glob("*.json")):
        if path.name != "expected.json":
            yield from json.loads(path.read_text())["samples"]
    for path in sorted(folder.glob("*.eval")):
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if name.startswith("samples/"):
                    yield json.loads(archive.read(name))


@pytest.mark.parametrize(
    "folder",
    [folder for name, folder in CASES if name == "inspect"],
    ids=lambda folder: folder.name,
)
def test_calls_of_inspect_equal_an_independent_count(folder: Path) -> None:
    expected = {one["uuid"]: independent_calls.inspect(one) for one in samples(folder)}
    options = json.loads((folder / "expected.json").read_text())["options"]
    for record in collected("inspect", folder, **options):
        same(record, expected[record["run_id"]])
    for record in collected("inspect", folder, **options, uptake=["tool:add"]):
        assert record["uptake_count"] == expected[record["run_id"]].tools["add"]


# Shapes that no fixture has ----------------------------------------------------------------------


def test_codex_names_a_tool_of_a_server_as_the_model_does(tmp_path: Path) -> None:
    folder = copied("codex/ok", tmp_path)
    item = {"id": "m", "type": "mcp_tool_call", "server": "notes", "tool": "search"}

    def change(lines: list[Any]) -> None:
        for status in ("completed", "failed"):
            event = {"type": "item.completed", "item": {**item, "status": status}}
            lines.insert(3, event)

    changed_lines(folder / "events.jsonl", change)
    record = only("codex", folder, uptake=["tool:mcp__notes__*"])
    assert record["tool_calls"] == {"command_execution": 2, "mcp__notes__search": 2}
    assert record["failed_tool_calls"] == {"mcp__notes__search": 1}
    assert (record["uptake_count"], record["failed_uptake_count"]) == (2, 1)
    # A skill is a file to it, which any command may read.
    unseen = only("codex", folder, uptake=["skill:x", "tool:mcp__notes__*"])
    assert "uptake_count" not in unseen
    assert "uptake_not_shown" in unseen["tags"]


def test_a_command_of_opencode_that_ends_with_another_code_failed(tmp_path: Path) -> None:
    folder = copied("opencode/ok", tmp_path)

    def change(lines: list[Any]) -> None:
        lines[2]["part"]["state"]["metadata"]["exit"] = 7

    changed_lines(folder / "events.jsonl", change)
    assert only("opencode", folder)["failed_tool_calls"] == {"bash": 1}


def test_a_subagent_of_opencode_without_its_export_may_have_used_it(tmp_path: Path) -> None:
    folder = copied("opencode/subagent", tmp_path)
    assert only("opencode", folder, uptake=["tool:bash"])["uptake_count"] == 1
    next(folder.glob("export.*.json")).unlink()
    assert "uptake_count" not in only("opencode", folder, uptake=["tool:bash"])
    assert only("opencode", folder, uptake=["tool:task"])["uptake_count"] == 1


def test_gemini_cli_counts_by_name_or_not_at_all(tmp_path: Path) -> None:
    folder = copied("gemini-cli/ok_json", tmp_path)
    assert only("gemini-cli", folder, uptake=["tool:run_*"])["uptake_count"] == 2
    assert "uptake_count" not in only("gemini-cli", folder, uptake=["command:printf *"])
    changed(folder / "stdout.txt", lambda found: found["stats"]["tools"].pop("byName"))
    assert "tool_calls" not in only("gemini-cli", folder)
    assert "uptake_count" not in only("gemini-cli", folder, uptake=["tool:run_*"])


def trajectory(folder: Path, *tools: tuple[str, dict[str, str]]) -> None:
    calls = [
        {"tool_call_id": "1", "function_name": name, "arguments": given} for name, given in tools
    ]
    (folder / "agent").mkdir(exist_ok=True)
    steps = [{"step_id": 1, "source": "agent", "tool_calls": calls}]
    (folder / "agent" / "trajectory.json").write_text(json.dumps({"steps": steps}))


def test_a_trajectory_of_harbor_shows_what_its_agent_shows(tmp_path: Path) -> None:
    folder = copied("harbor/ab-demo/hello__NWPfFvL", tmp_path)
    assert "tool_calls" not in only("harbor", folder)
    trajectory(folder, ("Bash", {"command": "skelly map"}), ("Skill", {"skill": "pdf"}))
    record = only("harbor", folder, uptake=["command:skelly *"])
    assert record["tool_calls"] == {"Bash": 1, "Skill": 1}
    assert "failed_tool_calls" not in record
    assert record["uptake_count"] == 1

    def agent(name: str) -> None:
        changed(folder / "result.json", lambda trial: trial["agent_info"].update(name=name))

    agent("of-my-own")
    assert only("harbor", folder, uptake=["tool:Skill"])["uptake_count"] == 1
    assert "uptake_count" not in only("harbor", folder, uptake=["skill:pdf"])
    trajectory(folder, ("run", {"line": "skelly map"}))
    assert "uptake_count" not in only("harbor", folder, uptake=["command:skelly *"])
    agent("claude-code")
    assert only("harbor", folder, uptake=["skill:pdf"])["uptake_count"] == 0
    assert only("harbor", folder, uptake=["command:skelly *"])["uptake_count"] == 0


def test_inspect_shows_commands_and_skills(tmp_path: Path) -> None:
    folder = copied("inspect/ok", tmp_path)

    def change(log: Any) -> None:
        events = log["samples"][0]["events"]
        events += [
            {"event": "tool", "function": "bash", "arguments": {"command": "ls | skelly x"}},
            {"event": "tool", "function": "skill", "arguments": {"command": "pdf"}},
        ]

    changed(folder / "ok.json", change)
    found = {
        pattern: only("inspect", folder, uptake=[pattern])["uptake_count"]
        for pattern in ("command:skelly *", "skill:pdf", "tool:add", "skill:x")
    }
    assert found == {"command:skelly *": 1, "skill:pdf": 1, "tool:add": 1, "skill:x": 0}


@pytest.mark.parametrize("asked", [None, [], "text", {"command": None}, {"command": {"a": 1}}, 7])
def test_arguments_may_be_anything(asked: Any) -> None:
    for name in ("Bash", "Skill"):
        call = Call(name=name, asked=asked)
        assert isinstance(Pattern("command:x *").matches(call), bool)
        assert isinstance(Pattern("skill:x").matches(call), bool)
        raw = Call(name=name, asked=msgspec.Raw(json.dumps(asked).encode()))
        assert isinstance(Pattern("command:x *").matches(raw), bool)
    assert not Pattern("command:x").matches(Call(name="Bash", asked=msgspec.Raw(b"{")))
