"""What holds for every format: arms, zeros, prices, failures, repeats, order."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import twoarm
from tests.collecting import (
    FIXTURES,
    changed,
    changed_lines,
    collected,
    collection,
    copied,
    only,
    records,
    sidecar,
)
from twoarm.collect.formats import load_formats
from twoarm.collect.gather import Place, gather, left_out
from twoarm.collect.moment import utc_text
from twoarm.errors import ArmsError, BadRunsError, InputError, UsageError

HARBOR = FIXTURES / "harbor" / "ab-demo"
BEHAVIOUR: dict[str, Any] = {
    "arm_key": "config.agent.kwargs.behaviour",
    "arm_map": {"solve": "with_x", "fail": "without_x"},
}


# Arms --------------------------------------------------------------------------------------------


def test_several_paths_are_one_arm(tmp_path: Path) -> None:
    for number in (1, 2):
        folder = copied("opencode/ok", tmp_path / str(number))
        sidecar(folder, repeat=number)
    found = collected("opencode", tmp_path / "1", tmp_path / "2")
    assert [(record["arm"], record["repeat"]) for record in found] == [("a", 1), ("a", 2)]


def test_an_arm_is_never_guessed() -> None:
    with pytest.raises(ArmsError, match="which arm\\? name it with `Place"):
        gather("harbor", [Place(arm=None, path=str(HARBOR))])


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


# Zero is not "unknown" ---------------------------------------------------------------------------


def table(path: Path, **cells: Any) -> dict[str, Any]:
    row = {"task_id": "t", "success": "1", "duration_seconds": "1"} | cells
    path.write_text(",".join(row) + "\n" + ",".join(str(cell) for cell in row.values()) + "\n")
    return only("table", path)


@pytest.mark.parametrize(
    ("steps", "tokens", "cost", "expected"),
    [
        (3, 0, 0, (None, None, ["cost_unknown", "usage_unknown"])),
        (3, 10, 0, (10, None, ["cost_unknown"])),
        ("", 10, 0, (10, None, ["cost_unknown"])),
        (3, 0, 0.5, (None, 0.5, ["usage_unknown"])),
        (0, 0, 0, (0, 0, None)),
        ("", 0, 0, (0, 0, None)),
        (3, 10, 0.5, (10, 0.5, None)),
    ],
)
def test_zeros_of_a_run_that_took_steps_are_not_known(
    steps: Any, tokens: int, cost: float, expected: tuple[Any, ...], tmp_path: Path
) -> None:
    record = table(
        tmp_path / "t.csv",
        step_count=steps,
        total_cost_usd=cost,
        input_tokens=tokens,
        output_tokens=tokens,
        cache_read_tokens=tokens,
        cache_write_tokens=tokens,
    )
    assert (record["input_tokens"], record["total_cost_usd"], record.get("tags")) == expected


def test_each_null_is_a_caveat_with_its_count_and_first_path() -> None:
    case = FIXTURES / "opencode" / "nousage"
    with collection("opencode", case) as found:
        caveats = {caveat.code: caveat.message for caveat in found.caveats}
    assert caveats["usage_unknown"] == (
        "steps were taken but no usage was reported, so token counts are null, not 0: "
        f"1 run, first {case}/events.jsonl"
    )


# Prices ------------------------------------------------------------------------------------------

PRICES = """
[scripted-ok]
input = 1.0
output = 10.0
cache_read = 0.1
cache_write = 1.25
"""


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    path = tmp_path / "prices.toml"
    path.write_text(PRICES)
    return path


def test_a_missing_cost_is_computed_and_marked(prices: Path) -> None:
    record = only("codex", FIXTURES / "codex" / "ok", prices=str(prices))
    # 1400 x 1 + 120 x 10 + 2100 x 0.1 = 2810 millionths.
    assert (record["total_cost_usd"], record["tags"]) == (0.00281, ["cost_computed"])


def test_a_cost_of_the_source_stays(prices: Path) -> None:
    prices.write_text(PRICES.replace("scripted-ok", '"scripted/scripted-ok"'))
    record = only("opencode", FIXTURES / "opencode" / "ok", prices=str(prices))
    assert record["total_cost_usd"] == 0.00281
    assert "tags" not in record


@pytest.mark.parametrize(
    ("old", "new", "cost"),
    [
        ("scripted-ok", "another", None),
        ("cache_read = 0.1", "", None),
        # Codex counts 0 cache writes, so their price is not needed.
        ("cache_write = 1.25", "", 0.00281),
        ("cache_read = 0.1", "cache_read = 0", 0.0026),
    ],
)
def test_a_cost_needs_the_price_of_every_count_that_costs(
    old: str, new: str, cost: float | None, prices: Path
) -> None:
    prices.write_text(PRICES.replace(old, new))
    record = only("codex", FIXTURES / "codex" / "ok", prices=str(prices))
    assert record["total_cost_usd"] == cost
    assert record["tags"] == (["no_price"] if cost is None else ["cost_computed"])


def test_a_count_that_is_not_known_is_not_priced_unless_it_costs_nothing(prices: Path) -> None:
    case = FIXTURES / "gemini-cli" / "ok_json"
    assert only("gemini-cli", case, prices=str(prices))["total_cost_usd"] is None
    prices.write_text(PRICES.replace("cache_write = 1.25", "cache_write = 0"))
    assert only("gemini-cli", case, prices=str(prices))["total_cost_usd"] == 0.00281


def test_each_model_has_its_own_price(tmp_path: Path) -> None:
    folder = copied("claude-code/result_success", tmp_path)
    changed(folder / "result.json", lambda d: d.pop("total_cost_usd"))
    path = tmp_path / "prices.toml"
    path.write_text(
        "[claude-opus-EXAMPLE]\ninput = 1\noutput = 2\ncache_read = 3\ncache_write = 4\n"
        "[claude-haiku-EXAMPLE]\ninput = 100\noutput = 200\n"
    )
    record = only("claude-code", folder, prices=str(path))
    opus = 12 * 1 + 150 * 2 + 30000 * 3 + 2000 * 4
    haiku = 2500 * 100 + 100 * 200
    assert record["total_cost_usd"] == pytest.approx((opus + haiku) / 1e6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[m]\ninput = 1\n", "not a price table: Object missing required field `output`"),
        ("[m]\ninput = -1\noutput = 1\n", "not a price table: Expected"),
        ("[m]\ninput = 1\noutput = 1\ncached = 1\n", "unknown field `cached`"),
        ("nonsense", "not TOML"),
        ("\xff", "not UTF-8"),
    ],
)
def test_a_bad_price_table_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=message):
        only("codex", FIXTURES / "codex" / "ok", prices=str(path))


# The sidecar -------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return copied("opencode/ok", tmp_path)


@pytest.mark.parametrize(
    ("keys", "success", "reason"),
    [
        ({}, True, None),
        ({"acceptance_exit_code": 1}, False, None),
        ({"setup_exit_code": 3}, False, "task setup failed with exit code 3"),
        ({"arm_setup_exit_code": 4}, False, "arm setup failed with exit code 4"),
        ({"setup_exit_code": 0, "arm_setup_exit_code": 0}, True, None),
        ({"agent_exit_code": 1}, True, None),
        (
            {"agent_exit_code": 1, "acceptance_exit_code": 99},
            False,
            "agent exit code not 0 and acceptance never ran",
        ),
        ({"acceptance_exit_code": 99}, False, None),
    ],
)
def test_exit_codes_decide_nothing_but_acceptance_and_set_up(
    keys: dict[str, Any], success: bool, reason: str | None, run: Path
) -> None:
    sidecar(run, **keys)
    record = only("opencode", run)
    assert (record["success"], record.get("failure_reason")) == (success, reason)
    assert record["failure"] == ("infra" if reason else None)


def refusal(folder: Path) -> str:
    with pytest.raises(BadRunsError) as caught:
        collected("opencode", folder)
    return str(caught.value)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"acceptance_exit_code": None}, "acceptance_exit_code is null, but the agent finished"),
        ({"task_id": ""}, "length >= 1 - at `$.task_id`"),
        ({"repeat": 0}, ">= 1 - at `$.repeat`"),
        ({"acceptance_exit_cod": 1}, "unknown field `acceptance_exit_cod`"),
        ({"started_at_utc": "yesterday"}, "$.started_at_utc"),
        ({"ended_at_utc": "2026-11-15T05:00:00Z"}, "ended_at_utc is before started_at_utc"),
    ],
)
def test_a_bad_sidecar_is_named(keys: dict[str, Any], message: str, run: Path) -> None:
    sidecar(run, **keys)
    text = refusal(run)
    assert text.startswith(f"{run}/run.json: ")
    assert message in text


def test_a_missing_key_of_the_sidecar_is_named(run: Path) -> None:
    changed(run / "run.json", lambda document: document.pop("acceptance_exit_code"))
    assert "missing required field `acceptance_exit_code`" in refusal(run)


def test_a_run_folder_without_a_sidecar_is_refused(run: Path) -> None:
    (run / "run.json").unlink()
    assert f"{run}: no run.json beside events.jsonl" in refusal(run)


def test_when_every_input_is_bad_they_are_listed_even_if_they_may_be_skipped(run: Path) -> None:
    (run / "run.json").unlink()
    with pytest.raises(BadRunsError, match="no run.json beside events.jsonl"):
        collected("opencode", run, skip_bad=True)


def test_a_sidecar_without_a_run_is_refused(tmp_path: Path) -> None:
    sidecar(tmp_path)
    assert f"{tmp_path}: neither events.jsonl nor export.json of opencode" in refusal(tmp_path)


def test_a_killed_agent_took_as_long_as_it_was_waited_for(tmp_path: Path) -> None:
    folder = copied("opencode/killed_timeout", tmp_path)
    sidecar(folder, started_at_utc=None, ended_at_utc=None)
    assert only("opencode", folder)["duration_seconds"] == 6.343


def test_without_any_clock_there_is_no_run(tmp_path: Path) -> None:
    folder = copied("codex/flaky_reconnect", tmp_path)
    sidecar(folder, started_at_utc=None, ended_at_utc=None)
    with pytest.raises(BadRunsError, match="no duration; write started_at_utc and ended_at_utc"):
        collected("codex", folder)


@pytest.mark.parametrize(
    ("name", "case", "command"),
    [
        ("opencode", "opencode/ok", 'test "$(cat hello.txt)" = "hello world"'),
        ("codex", "codex/ok", 'test "$(cat hello.txt)" = "hello world"'),
        ("claude-code", "claude-code/ok", 'test "$(cat hello.txt)" = "hello world"'),
        ("mini-swe-agent", "mini-swe-agent/ok", "grep -qx 'hello world' hello.txt"),
    ],
)
def test_the_agents_own_acceptance_commands_are_counted(
    name: str, case: str, command: str, tmp_path: Path
) -> None:
    folder = copied(case, tmp_path)
    sidecar(folder, acceptance_command=command)
    record = only(name, folder)
    assert (record["acceptance_cmd_count"], record["acceptance_first_pass"]) == (1, True)
    sidecar(folder, acceptance_command="make never")
    record = only(name, folder)
    assert record["acceptance_cmd_count"] == 0
    assert "acceptance_first_pass" not in record


def test_a_failed_first_acceptance_command_is_told(run: Path) -> None:
    def fail(events: list[Any]) -> None:
        events[5]["part"]["state"]["metadata"]["exit"] = 1

    changed_lines(run / "events.jsonl", fail)
    assert only("opencode", run)["acceptance_first_pass"] is False


# Repeats and order -------------------------------------------------------------------------------


def many(tmp_path: Path, *given: tuple[str, int | None, str | None]) -> None:
    for number, (task, repeat, started) in enumerate(given):
        folder = copied("opencode/ok", tmp_path / f"{number:02}")
        sidecar(folder, task_id=task, repeat=repeat, started_at_utc=started, run_id=str(number))
        sidecar(folder, ended_at_utc="2026-11-15T23:00:00Z")


def test_repeats_are_numbered_by_start_time_within_task_and_arm(tmp_path: Path) -> None:
    many(
        tmp_path,
        ("b", None, "2026-11-15T07:00:00Z"),
        ("a", None, "2026-11-15T09:00:00Z"),
        ("b", None, "2026-11-15T06:00:00Z"),
        ("a", None, "2026-11-15T08:00:00+02:00"),
    )
    with collection("opencode", tmp_path) as found:
        rows = [(r["task_id"], r["repeat"], r["run_id"]) for r in records(found)]
        codes = [caveat.code for caveat in found.caveats]
    assert rows == [("a", 1, "3"), ("a", 2, "1"), ("b", 1, "2"), ("b", 2, "0")]
    assert codes == ["repeats_numbered"]


def test_repeats_of_the_source_stay(tmp_path: Path) -> None:
    many(tmp_path, ("a", 7, "2026-11-15T07:00:00Z"), ("a", 2, "2026-11-15T08:00:00Z"))
    with collection("opencode", tmp_path) as found:
        assert [(r["repeat"], r["run_id"]) for r in records(found)] == [(2, "1"), (7, "0")]
        assert found.caveats == ()
    renumbered = collected("opencode", tmp_path, renumber=True)
    assert [(r["repeat"], r["run_id"]) for r in renumbered] == [(1, "0"), (2, "1")]


def test_two_runs_of_one_repeat_are_refused(tmp_path: Path) -> None:
    many(tmp_path, ("a", 1, None), ("a", 1, None))
    for skip_bad in (False, True):
        with pytest.raises(BadRunsError) as caught:
            collected("opencode", tmp_path, skip_bad=skip_bad)
        assert str(caught.value) == (
            f"{tmp_path}/01/opencode-ok/events.jsonl: task `a`, arm `a`, repeat 1 is already in "
            f"{tmp_path}/00/opencode-ok/events.jsonl; give each its own repeat, or pass "
            "`renumber=True`"
        )


def test_repeats_are_given_for_all_runs_of_a_task_or_for_none(tmp_path: Path) -> None:
    many(tmp_path, ("a", 1, None), ("a", None, None))
    with pytest.raises(BadRunsError, match="no repeat, but other runs of its task and arm"):
        collected("opencode", tmp_path)


def test_the_order_of_paths_does_not_change_the_records(tmp_path: Path) -> None:
    many(tmp_path, ("b", 2, None), ("a", 1, None), ("b", 1, None))
    folders = [tmp_path / name for name in ("00", "01", "02")]
    forward = collected("opencode", *folders)
    assert forward == collected("opencode", *reversed(folders))
    assert [(r["task_id"], r["repeat"]) for r in forward] == [("a", 1), ("b", 1), ("b", 2)]


def test_many_records_wait_outside_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = collected("harbor", HARBOR, **BEHAVIOUR)
    monkeypatch.setattr("twoarm.collect.spool.IN_MEMORY", 100)
    assert collected("harbor", HARBOR, **BEHAVIOUR) == expected


def test_a_collection_is_scored(tmp_path: Path) -> None:
    path = tmp_path / "collected.jsonl"
    with collection("harbor", HARBOR, **BEHAVIOUR) as found:
        path.write_bytes(b"".join(found.lines()))
    analysis = twoarm.score(str(path))
    assert analysis.candidate == "with_x"
    assert [summary.successes for summary in analysis.arm_summaries] == [4, 0]
    assert not any(caveat.code == "unknown_keys" for caveat in analysis.caveats)


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1794722148.581, "2026-11-15T05:55:48.581Z"),
        (-1, "1969-12-31T23:59:59.000Z"),
        (1e300, None),
        (float("nan"), None),
        (None, None),
    ],
)
def test_a_moment_is_text_in_utc(at: float | None, text: str | None) -> None:
    assert utc_text(at) == text


def test_the_tags_of_a_record_explain_themselves() -> None:
    from twoarm.collect.caveats import CAVEATS

    folder = Path(__file__).parent.parent / "src" / "twoarm" / "collect"
    source = "".join(path.read_text() for path in folder.glob("*.py") if path.name != "caveats.py")
    for code in CAVEATS:
        assert f'"{code}"' in source or f"'{code}'" in source, f"{code} is raised by nothing"


def test_what_is_collected_is_what_json_says(tmp_path: Path) -> None:
    with collection("harbor", HARBOR, **BEHAVIOUR) as found:
        for line in found.lines():
            assert line.endswith(b"}\n")
            assert json.loads(line)["failure"] is None
