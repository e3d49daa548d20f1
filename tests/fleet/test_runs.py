"""A run on two nodes is as on one machine: what travels, what comes back, what nobody sees."""

import json
import os
import subprocess
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from tests.support.clusters import HEAD, TestCluster
from tests.support.suite_files import suite_of

ON = ("--executor", f"ray:{HEAD}", "--display", "lines", "--no-evidence", "--yes")
# Nobody else's: what is looked through for it is all of this machine.
SECRET = f"sk-secret-canary-{token_hex(5)}"
# It needs what was built at this path, a file of HOME, and a tool that lies beside the suite.
AGENT = """\
built-tool > answer.txt
cat "$HOME/.config/agent" >> answer.txt
sh {suite}/tool.sh >> answer.txt
echo "with $MY_KEY"
"""
ANSWER = "built here\nlogged in\nfrom the suite\n"


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, "-C", folder, *words], check=True, capture_output=True)


def everything(folder: Path) -> Path:
    """A suite that needs all that can travel."""
    tool = folder / "tool"
    tool.mkdir(parents=True)
    (tool / "built-tool").write_text("#!/bin/sh\necho built here\n")
    git(tool, "init", "-q")
    git(tool, "add", "-A")
    git(tool, "commit", "-q", "-m", "tool")
    (folder / "login").write_text("logged in\n")
    (folder / "tool.sh").write_text("echo from the suite\n")
    (folder / "check.sh").write_text(f"test \"$(cat answer.txt)\" = '{ANSWER.strip()}'\n")
    # A wrapper that has the path of the build in it, as those of other programs have.
    install = "install -m 755 built-tool {build}/real && "
    install += "printf '#!/bin/sh\\nexec %s\\n' {build}/real > {build}/bin/built-tool"
    build = {
        "source": {"repo": "tool", "ref": "HEAD"},
        "build_commands": [f"{install} && chmod +x {{build}}/bin/built-tool"],
    }
    suite = suite_of(
        folder,
        "#!/bin/sh\n" + AGENT.replace("{suite}", "$1"),
        agent={
            "argv": ["{suite}/agent.sh", "{suite}"],
            "home": {".config/agent": "login"},
            "secrets": ["MY_KEY"],
        },
        arms={"with": build, "without": build},
        tasks=[
            {"id": name, "prompt": "Do it.", "acceptance_command": "sh {suite}/check.sh"}
            for name in ("one", "two", "three")
        ],
    )
    # The agent travels as well: no node has one of its own.
    (folder / "agent.sh").chmod(0o755)
    return suite


def lines_of(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "collected.jsonl").read_bytes().splitlines()]


@pytest.fixture(scope="module")
def ran(cluster: TestCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run on both nodes."""
    folder = tmp_path_factory.mktemp("ran")
    suite = everything(folder / "s")
    words = ("run", str(suite), *ON, "--repeats", "2", "--out", str(folder / "out"))
    done = cluster.run(*words, MY_KEY=SECRET)
    assert "4 jobs on 2 nodes: n1 (2) and n2 (2)" in done.stderr
    assert "12 of 12 trials done" in done.stderr
    assert "warning: whoever reaches the ports of this cluster can run programs" in done.stderr
    return folder / "out"


def test_runs_come_back_as_from_one_machine(ran: Path, cluster: TestCluster) -> None:
    lines = lines_of(ran)
    assert [(line["success"], line.get("failure")) for line in lines] == [(True, None)] * 12
    names = {"acceptance.log", "diff.patch", "prompt.txt", "run.json", "stderr.log", "trial.json"}
    for run in sorted(ran.glob("runs/*/*")):
        assert names | {"stdout.txt"} <= {path.name for path in run.iterdir()}
        assert "built here" in (run / "diff.patch").read_text()
    here = ran.parent / "here"
    words = ("run", str(ran.parent / "s" / "suite.json"), "--no-evidence", "--repeats", "2")
    cluster.run(*words, "--out", str(here), MY_KEY=SECRET)
    schedules = [(folder / "schedule.json").read_bytes() for folder in (ran, here)]
    assert schedules[0] == schedules[1]
    keys = ("task_id", "arm", "repeat", "success", "acceptance_exit_code", "grader", "checks")
    assert [[line.get(key) for key in keys] for line in lines] == [
        [line.get(key) for key in keys] for line in lines_of(here)
    ]


def test_the_receipt_says_which_node_ran_what_and_blocks_stay_on_one(ran: Path) -> None:
    nodes = json.loads((ran / "receipt.json").read_bytes())["nodes"]
    assert len(nodes) == 12
    assert set(nodes.values()) == {"n1", "n2"}
    for trial, node in nodes.items():
        arm, _, rest = trial.partition("/")
        other = "without" if arm == "with" else "with"
        assert nodes[f"{other}/{rest}"] == node


def test_nothing_is_left_on_any_machine(ran: Path, cluster: TestCluster) -> None:
    for folder in (cluster.cache, cluster.cache_of("n1"), cluster.cache_of("n2")):
        assert list(folder.iterdir()) == []


def test_no_secret_is_where_ray_keeps_anything(ran: Path, cluster: TestCluster) -> None:
    """Its logs and databases, its shared memory, and the variables of all its processes."""
    secret = SECRET.encode()
    kept = [path for path in cluster.kept.rglob("*") if path.is_file()]
    assert any(path.name.startswith("gcs_server") for path in kept)
    shared = [path for path in Path("/dev/shm").rglob("*") if path.is_file()]
    for path in (*kept, *shared, *filter(Path.is_file, ran.rglob("*"))):
        assert secret not in path.read_bytes(), path
    looked = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"ray" in (folder / "cmdline").read_bytes():
                assert secret not in (folder / "environ").read_bytes()
                looked += 1
        except OSError:
            continue
    assert looked > 3
    assert "with [secret MY_KEY]" in next(ran.glob("runs/*/*/stdout.txt")).read_text()


def test_a_dry_run_looks_at_the_nodes(cluster: TestCluster, tmp_path: Path) -> None:
    suite = str(suite_of(tmp_path))
    done = cluster.run("run", suite, "--executor", "ray", "--dry-run", "--jobs", "3")
    assert done.returncode == 0, done.stderr
    assert "3 jobs on 2 nodes: n1 (2) and n2 (1)" in done.stdout
    assert "no such file" not in done.stdout
    assert done.stdout.endswith(f"twoarm run {suite} --executor ray --jobs 3\n")
    assert os.listdir(cluster.cache_of("n1")) == []


def test_a_run_goes_on_wherever_it_is_told_to(cluster: TestCluster, out: Path) -> None:
    """On the same cluster if nothing is said, and here if that is."""
    suite = str(suite_of(out.parent / "s"))
    assert cluster.run("run", suite, *ON, "--repeats", "1", "--out", str(out)).returncode == 0
    again = cluster.run("run", "--resume", str(out), "--repeats", "2", "--no-evidence")
    assert "jobs on 2 nodes" in again.stderr
    last = ("--repeats", "3", "--no-evidence", "--executor", "local")
    assert "nodes" not in cluster.run("run", "--resume", str(out), *last).stderr
    nodes = json.loads((out / "receipt.json").read_bytes())["nodes"]
    assert len(nodes) == 8
    assert len(lines_of(out)) == 12
