"""Which arm a run is of, and which program wrote it: never guessed, and said if it is unclear."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.collect_fixtures import (
    BEHAVIOUR,
    FIXTURES,
    HARBOR,
    changed,
    collected,
    collection,
    copied,
    only,
    records,
    sidecar,
)
from twoarm.collect.gather import ArmPath, gather, left_out
from twoarm.errors import ArmsError, BadRunsError, InputError, UsageError
from twoarm.programs.registry import load_formats

# Arms --------------------------------------------------------------------------------------------


def test_several_paths_are_one_arm(tmp_path: Path) -> None:
    for number in (1, 2):
        folder = copied("opencode/ok", tmp_path / str(number))
        sidecar(folder, repeat=number)
    found = collected("opencode", tmp_path / "1", tmp_path / "2")
    assert [(record["arm"], record["repeat"]) for record in found] == [("a", 1), ("a", 2)]


def test_an_arm_is_never_guessed() -> None:
    with pytest.raises(ArmsError, match="which arm\\? name it with `ArmPath"):
        gather("harbor", [ArmPath(arm=None, path=str(HARBOR))])


def test_a_value_that_stands_for_no_arm_is_named() -> None:
    key = str(BEHAVIOUR["arm_key"])
    with pytest.raises(BadRunsError) as caught:
        collected("harbor", HARBOR, arm_key=key)
    assert caught.value.count == 8
    assert re.search(
        r"config.agent.kwargs.behaviour is `(fail|solve)`, which `arm_map=` maps to no arm; "
        r'add `arm_map=\{"\1": NAME\}`',
        str(caught.value),
    )
    with collection("harbor", HARBOR, arm_key=key, arm_map={"solve": "with_x"}) as found:
        assert found.runs == 4
        assert left_out(found.left_out) == [
            f"left out: 4 runs whose {key} is `fail`, an arm that was not asked for"
        ]
    with pytest.raises(ArmsError, match="no run for arm `b`: .* is never `no`; values found: `fa"):
        collected("harbor", HARBOR, arm_key=key, arm_map={"solve": "a", "no": "b"})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("config.agent.kwargs.behaviour", "solve"),
        ("config.agent.kwargs", '{"behaviour":"solve"}'),
        ("config.agent.skills", "[]"),
        ("config.agent.n_concurrent", "null"),
        ("verifier_result.rewards.reward", "1.0"),
        ("task_name", "hello"),
    ],
)
def test_an_arm_key_may_hold_any_value(key: str, value: str) -> None:
    trial = HARBOR / "hello__NWPfFvL"
    assert only("harbor", trial, arm_key=key, arm_map={value: "x"})["arm"] == "x"


@pytest.mark.parametrize(
    "key", ["nothing", "config.nothing", "task_name.x", "config.agent.skills.0", ""]
)
def test_an_arm_key_that_is_not_there_is_said(key: str) -> None:
    with pytest.raises(BadRunsError, match="no `.*` in it, so its arm is unknown"):
        collected("harbor", HARBOR, arm_key=key, arm_map={"x": "y"})


def test_an_arm_key_reaches_into_lists(tmp_path: Path) -> None:
    found = collected(
        "inspect",
        FIXTURES / "inspect" / "json",
        arm_key="eval.tags.0",
        arm_map={"baseline": "b", "treatment": "t"},
    )
    assert {record["arm"] for record in found} == {"b", "t"}


def test_run_folders_may_name_their_arm_in_the_sidecar(tmp_path: Path) -> None:
    for arm in ("on", "off"):
        sidecar(copied("opencode/ok", tmp_path / arm), arm=arm)
    found = collected(
        "opencode", tmp_path, arm_key="arm", arm_map={"on": "with_x", "off": "without_x"}
    )
    assert [record["arm"] for record in found] == ["with_x", "without_x"]


def test_two_configurations_under_one_arm_are_refused_with_key_and_values() -> None:
    with pytest.raises(ArmsError) as caught:
        collected("harbor", HARBOR)
    assert str(caught.value) == (
        f"{HARBOR}/hello2__qGqzAYb/result.json: config.agent.kwargs.behaviour is `fail`, but "
        f"`solve` in {HARBOR}/hello2__k85gLgX/result.json, both as arm `a`; "
        "split them into arms with `arm_key=`, or allow it with "
        '`may_differ=["config.agent.kwargs.behaviour"]`'
    )
    assert len(collected("harbor", HARBOR, may_differ=["config.agent.kwargs.behaviour"])) == 8
    assert len(collected("harbor", HARBOR, may_differ=["config.agent"])) == 8


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"config": {"agent": {"skills": ["x"]}}}, "config.agent.skills"),
        ({"config": {"extra_instructions": ["x"]}}, "config.extra_instructions"),
        ({"source": "tasks-no-skills"}, "source"),
        ({"agent_info": {"version": "9"}}, "agent_info.version"),
    ],
)
def test_what_makes_a_harbor_configuration(
    change: dict[str, Any], key: str, tmp_path: Path
) -> None:
    copied("harbor/ab-demo/hello__NWPfFvL", tmp_path)
    other = copied("harbor/ab-demo/hello__yE9Uxkg", tmp_path)
    assert len(collected("harbor", tmp_path)) == 2

    def merge(into: dict[str, Any], values: dict[str, Any]) -> None:
        for name, value in values.items():
            if isinstance(value, dict):
                merge(into[name], value)
            else:
                into[name] = value

    changed(other / "result.json", lambda document: merge(document, change))
    with pytest.raises(ArmsError, match=f"{key} is"):
        collected("harbor", tmp_path)


def test_what_is_not_known_or_empty_does_not_differ(tmp_path: Path) -> None:
    copied("harbor/ab-demo/hello__NWPfFvL", tmp_path)
    other = copied("harbor/ab-demo/hello__yE9Uxkg", tmp_path)
    changed(other / "result.json", lambda d: d.pop("source"))
    changed(other / "result.json", lambda d: d["config"]["agent"].pop("skills"))
    changed(other / "result.json", lambda d: d["config"]["agent"].update(new_setting=None))
    assert len(collected("harbor", tmp_path)) == 2


def test_a_path_inside_another_is_refused(tmp_path: Path) -> None:
    folder = copied("opencode/ok", tmp_path)
    with pytest.raises(UsageError, match="its runs would be counted twice"):
        collected("opencode", tmp_path, folder)
    with pytest.raises(UsageError, match="its runs would be counted twice"):
        collected("opencode", folder, folder)


# Recognised formats ------------------------------------------------------------------------------


RECOGNISED = [
    ("harbor", "harbor"),
    ("opencode", "opencode/ok"),
    ("opencode", "opencode-old"),
    ("claude-code", "claude-code"),
    ("codex", "codex"),
    ("inspect", "inspect/eval"),
    ("inspect", "inspect/json"),
    ("gemini-cli", "gemini-cli"),
    ("mini-swe-agent", "mini-swe-agent"),
]


@pytest.mark.parametrize(("name", "case"), RECOGNISED)
def test_a_format_is_recognized_from_its_files(name: str, case: str) -> None:
    options: dict[str, Any] = {}
    if name == "harbor":
        options = BEHAVIOUR
    elif name == "inspect":
        options = {
            "arm_key": "eval.task_args.arm",
            "arm_map": {"baseline": "b", "treatment": "t"},
        }
    keys = ["model", "version"]
    with collection("auto", FIXTURES / case, may_differ=keys, **options) as found:
        assert (found.format, found.recognized) == (name, True)
        assert records(found) == collected(name, FIXTURES / case, may_differ=keys, **options)


def test_two_programs_are_not_recognized_as_one(tmp_path: Path) -> None:
    copied("codex/ok", tmp_path / "1")
    copied("opencode/ok", tmp_path / "2")
    with pytest.raises(InputError, match=r"2/opencode-ok: opencode, but .*1/codex-ok: codex"):
        collected("auto", tmp_path / "1", tmp_path / "2")


def test_files_of_no_program_are_not_recognized(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(InputError, match="no files of a known program; name the format: harbor,"):
        collected("auto", tmp_path)


def test_every_format_is_an_entry_point() -> None:
    assert list(load_formats().known) == [
        "harbor",
        "opencode",
        "claude-code",
        "codex",
        "inspect",
        "gemini-cli",
        "mini-swe-agent",
        "table",
        "command",
    ]
    assert all(name == one.name for name, one in load_formats().known.items())
