"""docs/cluster.md and its examples: every command of them is run, with stand-ins for clusters."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.forge.workflows.test_workflow import COMMIT, checked
from tests.support.actions_runner import Machine, filled, holds
from tests.support.documents import DOCS, ROOT, bash, block_with, blocks
from tests.support.run_folders import runs
from tests.support.shards import SAME, timeless
from tests.support.suite_files import wait_for

pytestmark = pytest.mark.usefixtures("cache")
DOCUMENT = DOCS / "cluster.md"
EXAMPLES = ROOT / "examples" / "cluster"
MATRIX, SLURM, KUBERNETES = (
    EXAMPLES / name for name in ("github-matrix.yml", "slurm.sh", "kubernetes.yaml")
)
KEY = "sk-0123456789abcdef"
SUITE = """
suite_id = "fake"
baseline = "without"
[agent]
program = "command"
argv = ["sh", "{suite}/agent.sh"]
env = { TASK = "{task_id}" }
secrets = SECRETS
[workspace]
copy = "app"
[arms.with]
env = { HINT = "1" }
[arms.without]
[[tasks]]
id = "one"
prompt = "Do one."
acceptance_command = "test -f answer.txt"
[[tasks]]
id = "three"
prompt = "Do three."
acceptance_command = "test -f answer.txt"
"""
# Runs what it is given as Slurm would, at once: every index of an array, or one command.
SBATCH = """#!/bin/sh
for word in "$@"; do last=$word; done
case "$*" in
*--wrap*) case "$*" in --dependency=afterok:7\\ *) exec sh -c "$last" ;; esac; exit 1 ;;
--parsable*) echo 7; array=$(sed -n 's/^#SBATCH --array=//p' "$last") ;;
--array=*) array=${1#--array=} ;;
esac
for index in $(seq "${array%-*}" "${array#*-}"); do
  SLURM_ARRAY_TASK_ID=$index SLURM_CPUS_PER_TASK=1 sh "$last" >> slurm.out 2>&1 || exit 1
done
"""

# The time is over once an agent waits.
TIMEOUT = """#!/bin/sh
shift
"$@" & pid=$!
while kill -0 $pid 2> /dev/null && [ ! -e 'REACHED' ]; do sleep 0.02; done
kill $pid
wait $pid && exit 0
exit 124
"""

# Comes back here, to `kubectl`.
KUBECTL = f"""#!{sys.executable}
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.documents.test_cluster import kubectl
kubectl(sys.argv[1:])
"""


def suite(folder: Path, secrets: str = "[]") -> Path:
    """A folder `evals` as the examples have it, with an agent that always does the same."""
    evals = folder / "evals"
    (evals / "app").mkdir(parents=True)
    (evals / "app" / "README.md").write_text("an app\n")
    (evals / "agent.sh").write_text(SAME)
    (evals / "suite.toml").write_text(SUITE.replace("SECRETS", secrets))
    return evals


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on PATH with twoarm, and with what installs nothing."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name, text in {"pipx": "#!/bin/sh\n", "npm": "#!/bin/sh\n", "sbatch": SBATCH}.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (folder / "twoarm").symlink_to(Path(sys.executable).with_name("twoarm"))
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def compared_with_one_machine(out: Path, evals: Path, folder: Path) -> None:
    """The merged runs are those of a run without shards, trial by trial."""
    bash(f"twoarm run '{evals}/suite.toml' --out whole --run-pages none", folder)
    assert len(runs(out)) == 20
    assert timeless(out) == timeless(folder / "whole")
    assert (out / "schedule.json").read_bytes() == (folder / "whole/schedule.json").read_bytes()


@pytest.mark.parametrize("path", [MATRIX, SLURM, KUBERNETES], ids=lambda path: path.name)
def test_the_document_has_the_examples_as_they_are(path: Path) -> None:
    assert path.read_text() in blocks(DOCUMENT, "sh" if path == SLURM else "yaml")


def test_the_commands_of_the_document(tmp_path: Path, programs: Path) -> None:
    evals = suite(tmp_path)
    told = [bash(block, tmp_path) for block in blocks(DOCUMENT, "sh") if not block.startswith("#!")]
    assert "merged 2 of 2 shards into all: 20 of 20 trials done" in told[0]
    assert "merged 1 of 2 shards into some: 10 of 20 trials done" in told[1]
    assert "shard 2 of 2 is missing" in told[1]
    compared_with_one_machine(tmp_path / "all", evals, tmp_path)


# A build matrix.


def workflow() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(MATRIX.read_text())
    return loaded


def steps(
    job: dict[str, Any], machine: Machine, context: Any, kept: Path, *, failing: bool = False
) -> Iterator[str]:
    """Run the steps of a job; the actions that it uses, by their names."""
    own = {name: filled(text, context) for name, text in job.get("env", {}).items()}
    failed = False
    for step in job["steps"]:
        if not holds(step.get("if"), context, failed=failed):
            continue
        given = {key: filled(value, context) for key, value in step.get("with", {}).items()}
        action = step.get("uses", "").partition("@")[0]
        if action == "actions/upload-artifact":
            (kept / given["name"]).mkdir(parents=True)
            shutil.copy(machine.workspace / given["path"], kept / given["name"])
        elif action == "actions/download-artifact":
            for path in kept.glob(given["pattern"]):
                shutil.copytree(path, machine.workspace / given["path"] / path.name)
        elif not action:
            assert "${{" not in step["run"], "an expression in a shell line"
            env = {name: filled(text, context) for name, text in step.get("env", {}).items()}
            code, _ = machine.bash(step["run"], {**own, **env})
            failed = failed or code != 0
        yield action
    assert failed == failing, machine.log


def checked_out(folder: Path, evals: Path) -> Machine:
    machine = Machine(folder, {})
    shutil.copytree(evals, machine.workspace / "evals")
    return machine


def of_shard(number: int, shards: int, key: str = KEY) -> dict[str, Any]:
    """What the expressions of its job are about."""
    return {
        "matrix": {"shard": number},
        "strategy": {"job-total": shards},
        "secrets": {"OPENAI_API_KEY": key},
    }


def test_a_matrix_and_its_merge(
    tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evals = suite(tmp_path, '["OPENAI_API_KEY"]')
    kept = tmp_path / "kept"
    jobs = workflow()["jobs"]
    shards = jobs["shard"]["strategy"]["matrix"]["shard"]
    assert shards == list(range(1, len(shards) + 1))
    for number in shards:
        machine = checked_out(tmp_path / f"machine{number}", evals)
        context = of_shard(number, len(shards))
        assert "actions/checkout" in set(steps(jobs["shard"], machine, context, kept))
    assert jobs["merge"]["needs"] == "shard"
    machine = Machine(tmp_path / "merging", {})
    assert "actions/checkout" not in set(steps(jobs["merge"], machine, {}, kept))
    assert f"merged {len(shards)} of {len(shards)} shards" in machine.log
    bash("tar -xf kept/all/all.tar", tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    compared_with_one_machine(tmp_path / "all", evals, tmp_path)


@pytest.mark.parametrize("how", ["its time is over", "it never began"])
def test_a_shard_that_fails_is_named_by_the_merge(tmp_path: Path, programs: Path, how: str) -> None:
    evals = suite(tmp_path, '["OPENAI_API_KEY"]')
    gate, reached = tmp_path / "gate", tmp_path / "reached"
    wait = f"while [ ! -e '{gate}' ]; do touch '{reached}'; sleep 0.02; done"
    (evals / "agent.sh").write_text(f"{SAME}\nif [ $TASK = three ]; then {wait}; fi\n")
    kept = tmp_path / "kept"
    jobs = workflow()["jobs"]
    first = checked_out(tmp_path / "machine1", evals)
    gate.touch()
    assert len(list(steps(jobs["shard"], first, of_shard(1, 2), kept))) == 6
    gate.unlink()
    (programs / "timeout").write_text(TIMEOUT.replace("REACHED", str(reached)))
    (programs / "timeout").chmod(0o755)
    second = checked_out(tmp_path / "machine2", evals)
    key = KEY if how == "its time is over" else ""
    # Its archive is kept all the same.
    ran = list(steps(jobs["shard"], second, of_shard(2, 2, key), kept, failing=True))
    assert ran[-1] == "actions/upload-artifact"
    assert holds(jobs["merge"]["if"], {}, failed=True)
    merging = Machine(tmp_path / "merging", {})
    ran = list(steps(jobs["merge"], merging, {}, kept, failing=True))
    assert "actions/upload-artifact" not in ran
    told = "shard 2 of 2 is missing"
    if how == "its time is over":
        assert "twoarm: stopped; continue with" in second.log
        told = "shards/shard-2: shard 2 of 2 is not finished, with "
    assert f"twoarm: {told}" in merging.log


def test_no_job_waits_forever() -> None:
    text = MATRIX.read_text()
    told = re.search(r"run: timeout (\d+)m twoarm", text)
    assert told is not None
    minutes = [job["timeout-minutes"] for job in workflow()["jobs"].values()]
    # As long as a hosted runner lets a job run, with time to keep what there is.
    assert int(told[1]) + 15 <= max(minutes) < 360


def test_the_workflow_is_valid_pinned_and_safe(tmp_path: Path) -> None:
    checked("check-jsonschema", "--builtin-schema", "vendor.github-workflows", MATRIX)
    copy = tmp_path / ".github" / "workflows" / MATRIX.name
    copy.parent.mkdir(parents=True)
    copy.write_text(MATRIX.read_text().replace("@COMMIT", f"@{COMMIT}"))
    checked("zizmor", "--offline", "--no-progress", copy)
    used = re.findall(r"uses: (\S+)", MATRIX.read_text())
    assert len(used) == 4
    assert all(re.search(r"@[0-9a-f]{40}$", each) for each in used)


def test_the_agents_key_is_where_the_agent_starts_and_nowhere_else() -> None:
    with_key = [
        step["run"].split()[:4]
        for job in workflow()["jobs"].values()
        for step in job["steps"]
        if "secrets." in str(step)
    ]
    assert with_key == [["timeout", "330m", "twoarm", "run"]]


# A job array.


def test_an_array_its_merge_and_one_that_is_submitted_again(tmp_path: Path, programs: Path) -> None:
    evals = suite(tmp_path)
    shutil.copy(SLURM, tmp_path)
    submit = block_with(DOCUMENT, "sbatch")
    told = bash(submit, tmp_path, TMPDIR=str(tmp_path))
    assert "merged 5 of 5 shards" in told
    compared_with_one_machine(tmp_path / "all", evals, tmp_path)
    third = tmp_path / "shards" / "3" / "collected.jsonl"
    before = third.read_bytes()
    assert "`sbatch --array=3 slurm.sh`" in DOCUMENT.read_text()
    bash("sbatch --array=3 slurm.sh", tmp_path, TMPDIR=str(tmp_path))
    assert third.read_bytes() == before


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_a_shard_whose_time_is_over_goes_on(tmp_path: Path, programs: Path, sent: int) -> None:
    evals = suite(tmp_path)
    gate, reached = tmp_path / "gate", tmp_path / "reached"
    wait = f"touch '{reached}'; while [ ! -e '{gate}' ]; do sleep 0.02; done"
    (evals / "agent.sh").write_text(f"{SAME}\nif [ $TASK = three ]; then {wait}; fi\n")
    shutil.copy(SLURM, tmp_path)
    out = tmp_path / "shards" / "2"
    index = {"SLURM_ARRAY_TASK_ID": "2", "SLURM_CPUS_PER_TASK": "1", "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        ["sh", "slurm.sh"],
        cwd=tmp_path,
        env={**os.environ, **index},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(lambda: reached.exists() and process.poll() is None, 30)
    finally:
        # To the script itself, which is twoarm by now.
        process.send_signal(sent)
        process.communicate()
    assert process.returncode == (130 if sent == signal.SIGTERM else -sent)
    assert not (out / "collected.jsonl").exists() or sent == signal.SIGTERM
    gate.touch()
    submit = block_with(DOCUMENT, "sbatch")
    assert "merged 5 of 5 shards" in bash(submit, tmp_path, TMPDIR=str(tmp_path))
    bash("twoarm run evals/suite.toml --out whole --run-pages none", tmp_path)
    found, whole = timeless(tmp_path / "all"), timeless(tmp_path / "whole")
    (killed,) = (each for each in found if each["failure"] is not None)
    assert killed["failure"] == "interrupted"
    found.remove(killed)
    (again,) = (each for each in found if each["run_id"].endswith(".2"))
    assert [again[key] for key in ("task_id", "arm", "repeat")] == [
        killed[key] for key in ("task_id", "arm", "repeat")
    ]
    again["run_id"] = again["run_id"].removesuffix("2") + "1"
    assert found == whole


def test_the_script_is_clean_and_knows_its_number_of_shards() -> None:
    checked("shellcheck", SLURM)
    text = SLURM.read_text()
    array, shards = re.search(r"--array=1-(\d+)", text), re.search(r"^SHARDS=(\d+)", text, re.M)
    assert array is not None
    assert shards is not None
    assert array[1] == shards[1]


# An indexed Job.


def manifests() -> dict[str, Any]:
    return {each["metadata"]["name"]: each for each in yaml.safe_load_all(KUBERNETES.read_text())}


def pod(job: dict[str, Any], folder: Path, **variables: str) -> str:
    """Run the command of a Job as its container would, with other folders for its volumes."""
    (container,) = job["spec"]["template"]["spec"]["containers"]
    env = {each["name"]: each.get("value", KEY) for each in container["env"]}
    places = {each["mountPath"] for each in container["volumeMounts"]}
    for name, value in env.items():
        if value in places:
            env[name] = f"{folder}{value}"
    work = container.get("workingDir", "/")
    done = subprocess.run(
        container["command"],
        cwd=f"{folder}{work}",
        env={**os.environ, **env, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def kubectl(words: list[str]) -> None:
    """Runs the Jobs that are applied as Kubernetes would, at once; those are then complete."""
    match words:
        case ["apply", "-f", file, "-l", label]:
            key, _, value = label.partition("=")
            chosen = [job for job in yaml.safe_load_all(Path(file).read_text())
                      if job["metadata"]["labels"].get(key) == value]  # fmt: skip
            assert chosen, f"no Job has {label}"
            for job in chosen:
                for index in range(job["spec"].get("completions", 1)):
                    sys.stdout.write(pod(job, Path.cwd(), JOB_COMPLETION_INDEX=str(index)))
                Path(job["metadata"]["name"]).touch()
        case ["wait", "--for=condition=complete", _, name]:
            assert Path(name.removeprefix("job/")).exists(), f"{name} was not applied"
        case _:
            raise AssertionError(words)


def test_an_indexed_job_its_merge_and_a_pod_that_comes_back(tmp_path: Path, programs: Path) -> None:
    evals = suite(tmp_path)
    (programs / "kubectl").write_text(KUBECTL)
    (programs / "kubectl").chmod(0o755)
    shutil.copy(KUBERNETES, tmp_path)
    for name in ("runs", "cache"):
        (tmp_path / name).mkdir(exist_ok=True)
    shards = manifests()["twoarm-shards"]
    count = shards["spec"]["completions"]
    told = bash(block_with(DOCUMENT, "kubectl apply"), tmp_path)
    assert f"merged {count} of {count} shards" in told
    again = pod(shards, tmp_path, JOB_COMPLETION_INDEX="1")
    assert f"shard 2 of {count}" in again
    compared_with_one_machine(tmp_path / "runs" / "all", evals, tmp_path)


def test_the_jobs_are_whole() -> None:
    jobs = manifests()
    spec = jobs["twoarm-shards"]["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    assert {"name": "SHARDS", "value": str(spec["completions"])} in container["env"]
    assert spec["completionMode"] == "Indexed"
    # Of a pod that fails for no fault of its own; only those that are never restarted may have one.
    (rule,) = spec["podFailurePolicy"]["rules"]
    assert rule["action"] == "Ignore"
    assert rule["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]
    assert spec["template"]["spec"]["restartPolicy"] == "Never"
    for job in jobs.values():
        inside = job["spec"]["template"]["spec"]
        mounted = {each["name"] for each in inside["containers"][0]["volumeMounts"]}
        assert mounted == {each["name"] for each in inside["volumes"]}


# A cluster of Ray.


def test_the_versions_of_ray_are_those_that_were_tried() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (extra,) = project["optional-dependencies"]["ray"]
    oldest = extra.removeprefix("ray>=").removesuffix(",<3")
    pinned = (ROOT / "constraints.txt").read_text().splitlines()
    (newest,) = (line.removeprefix("ray==") for line in pinned if line.startswith("ray=="))
    told = " ".join(DOCUMENT.read_text().split())
    assert f"Ray has to be {oldest} or later" in told
    assert f"tried with Ray {newest} and with {oldest}.0, the oldest that the extra takes" in told
