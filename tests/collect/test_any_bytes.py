"""Any bytes and any value in any file: records or an error, and nothing is executed."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.collect_fixtures import collected, collection, copied, records, sidecar
from tests.support.deterministic import HealthCheck, given, settings, st
from twoarm.errors import TwoarmError

FOLDERS = [
    ("harbor", "harbor/ab-demo/hello__NWPfFvL"),
    ("opencode", "opencode/subagent"),
    ("opencode", "opencode-old/ok"),
    ("claude-code", "claude-code/stream"),
    ("claude-code", "claude-code/result_success"),
    ("codex", "codex/ok"),
    ("inspect", "inspect/ok"),
    ("inspect", "inspect/eval"),
    ("gemini-cli", "gemini-cli/ok_json"),
    ("gemini-cli", "gemini-cli/ok_stream"),
    ("gemini-cli", "gemini-cli/err_http401_json"),
    ("mini-swe-agent", "mini-swe-agent/ok"),
    ("table", "table"),
]

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.sampled_from(["ses_x", "result", "step_finish", "2026-11-15T06:00:00Z", "C", "1.2.3"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=5,
)


def tries_to_collect(name: str, folder: Path) -> None:
    """Records that scoring can read, or an error of ours."""
    for one in (name, "auto"):
        try:
            with collection(one, folder, skip_bad=True, may_differ=["eval", "config"]) as found:
                for record in records(found):
                    assert record["task_id"]
        except TwoarmError:
            continue


@pytest.mark.parametrize(("name", "case"), FOLDERS)
@given(data=st.data())
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
def test_any_bytes_in_any_file_give_records_or_an_error(
    name: str, case: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = copied(case, tmp_path_factory.mktemp("any"))
    path = data.draw(st.sampled_from(sorted(folder.rglob("*.*"))))
    text = path.read_bytes()
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    path.write_bytes(text[:start] + data.draw(st.binary(max_size=50)) + text[end:])
    tries_to_collect(name, folder)


def places(document: Any) -> list[tuple[Any, Any]]:
    """Every object or list of a document with each of its keys."""
    found: list[tuple[Any, Any]] = []
    keys = (
        list(document)
        if isinstance(document, dict)
        else range(len(document) if isinstance(document, list) else 0)
    )
    for key in keys:
        found.append((document, key))
        found += places(document[key])
    return found


@pytest.mark.parametrize(("name", "case"), [one for one in FOLDERS if one[0] != "table"])
@given(data=st.data())
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
def test_any_value_at_any_key_gives_records_or_an_error(
    name: str, case: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = copied(case, tmp_path_factory.mktemp("any"))
    texts = sorted(
        path for path in folder.rglob("*.*") if path.suffix in (".json", ".jsonl", ".txt")
    )
    path = data.draw(st.sampled_from(texts or [folder]))
    if not path.is_file() or not path.read_bytes().strip():
        return
    try:
        document = [json.loads(path.read_text())]
    except json.JSONDecodeError:
        document = [json.loads(line) for line in path.read_text().splitlines()]
    within, key = data.draw(st.sampled_from(places(document)))
    within[key] = data.draw(JSON)
    path.write_text("\n".join(json.dumps(one) for one in document))
    tries_to_collect(name, folder)


def test_nothing_in_a_folder_is_executed(tmp_path: Path) -> None:
    folder = copied("codex/ok", tmp_path)
    mark = tmp_path / "executed"
    sidecar(folder, acceptance_command=f"touch {mark}")
    for name in ("sitecustomize.py", "conftest.py", "json.py"):
        (folder / name).write_text(f"open({str(mark)!r}, 'w')")
    collected("codex", folder)
    assert not mark.exists()
