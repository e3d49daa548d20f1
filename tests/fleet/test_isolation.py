"""Every kind of isolation on a node, and an agent that is stopped there when it is too dear."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import REAL_PATH
from tests.fleet.test_runs import ON, lines_of
from tests.support.clusters import TestCluster, a_cluster
from tests.support.containers import IMAGE, Podman
from tests.support.suite_files import suite_of

# It tells what it can see: the run folder's parent is in no sandbox.
LOOK = """#!/bin/sh
test -e "$1" && echo seen > answer.txt || echo sealed > answer.txt; cat answer.txt
"""
TASKS = [{"id": "one", "prompt": "Do it.", "acceptance_command": "sh {suite}/check.sh"}]
_STEP = {
    "type": "step_finish",
    "timestamp": 1794722146938,
    "sessionID": "ses_1",
    "part": {
        "type": "step-finish",
        "reason": "tool-calls",
        "tokens": {"total": 2, "input": 1, "output": 1, "reasoning": 0},
        "cost": 0.4,
    },
}
# Three steps at 40 cents, and it would go on.
DEAR = f"""#!/bin/sh
if [ "$1" = --version ]; then echo 1.18.33; exit; fi
if [ "$1" = export ]; then exit 1; fi
for step in 1 2 3; do echo '{json.dumps(_STEP)}'; done
sleep 30
"""


@pytest.fixture(scope="module")
def sealed(podman_store: Podman, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestCluster]:
    """One node, on which there are bubblewrap and podman with an image."""
    with a_cluster(tmp_path_factory.mktemp("sealed")) as made:
        made.add("n1", env=podman_store.env)
        yield made


@pytest.mark.parametrize("isolation", ["copy", "bwrap", "podman"])
def test_what_a_trial_sees_there(
    sealed: TestCluster, podman_store: Podman, tmp_path: Path, isolation: str
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("x")
    contained = {"image": IMAGE} if isolation == "podman" else {}
    suite = suite_of(
        tmp_path / "s",
        LOOK,
        agent={"argv": ["{suite}/agent.sh", str(tmp_path)[:-1] + "[" + str(tmp_path)[-1] + "]"]},
        workspace=contained,
        tasks=TASKS,
    )
    (tmp_path / "s" / "agent.sh").chmod(0o755)
    (tmp_path / "s" / "check.sh").write_text("test -s answer.txt\n")
    out = tmp_path / "out"
    words = ("run", str(suite), *ON, "--repeats", "1", "--isolation", isolation)
    done = sealed.run(*words, "--out", str(out), **podman_store.env)
    assert "2 of 2 trials done" in done.stderr, done.stderr
    assert f"isolation {isolation}: " in done.stderr
    # Without a token, they reach Ray as well.
    assert ("agents in their sandboxes among them" in done.stderr) == (isolation == "bwrap")
    assert [line["success"] for line in lines_of(out)] == [True, True]
    assert set(json.loads((out / "receipt.json").read_bytes())["nodes"].values()) == {"n1"}
    assert podman_store.containers() == []
    assert list(sealed.cache_of("n1").iterdir()) == []


def test_an_image_that_is_not_on_a_node_is_named(
    sealed: TestCluster, podman_store: Podman, tmp_path: Path
) -> None:
    suite = suite_of(tmp_path / "s", workspace={"image": IMAGE})
    sealed.add("n2")
    try:
        words = ("run", str(suite), *ON, "--out", str(tmp_path / "out"))
        done = sealed.run(*words, **podman_store.env)
    finally:
        sealed.kill("n2")
    assert done.returncode == 2
    assert "twoarm: node n2: --isolation podman: podman has no image " in done.stderr


def test_an_agent_is_metered_on_its_node(sealed: TestCluster, tmp_path: Path) -> None:
    program = sealed.bin / "opencode"
    program.write_text(DEAR)
    program.chmod(0o755)
    suite = suite_of(
        tmp_path / "s",
        agent={"program": "opencode", "argv": None},
        limits={"budget_usd": 20.0, "trial_usd": 1.0, "timeout_seconds": 20},
        tasks=[{"id": "one", "prompt": "Do it.", "acceptance_command": "true"}],
    )
    out = tmp_path / "out"
    words = ("run", str(suite), *ON, "--repeats", "1", "--isolation", "copy", "--out", str(out))
    done = sealed.run(*words, PATH=f"{sealed.bin}:{REAL_PATH}:{sealed.path}")
    assert "2 of 2 trials done" in done.stderr, done.stderr
    for trial in out.glob("runs/*/*/trial.json"):
        told = json.loads(trial.read_bytes())
        assert told["facts"]["ended_by"] == "budget"
        assert told["node"] == "n1"
        assert told["cost_usd"] == pytest.approx(1.2)
