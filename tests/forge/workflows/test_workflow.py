"""The examples for CI, from a change of AGENTS.md to the comment, step by step as a runner does."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.forge.conftest import pull
from tests.support.actions_runner import (
    ROOT,
    Artifacts,
    CompositeRun,
    Machine,
    event_file,
    filled,
    holds,
)
from tests.support.collect_fixtures import FIXTURES
from tests.support.forge_stub import TOKEN, Stub

EXAMPLES = ROOT / "examples" / "ci"
WORKFLOW, GITLAB, SUITE = (
    EXAMPLES / name for name in ("agents-md.yml", "gitlab.yml", "agents-md.toml")
)
TWOARM = Path(sys.executable).with_name("twoarm")
COMMIT = "0123456789" * 4
# Solves what AGENTS.md tells it to, and prints what opencode prints.
OPENCODE = f"""#!/bin/sh
if [ "$1" = --version ]; then echo 1.18.33; exit; fi
if [ "$1" = export ]; then
  sed "s/ses_e22396cabffeSlkqcytWhwp0Vv/$2/" '{FIXTURES}/opencode/ok/export.json'; exit
fi
if grep -qs shell AGENTS.md; then
  printf 'echo "Hello, $1!"\\n' > greet.sh
  printf 'echo "Goodbye, $1!"\\n' > farewell.sh
fi
sed s/kqcytWhwp0Vv/$$/ '{FIXTURES}/opencode/ok/events.jsonl'
"""


def git(folder: Path, *words: str) -> str:
    quiet = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
    return subprocess.check_output(["git", "-C", folder, *quiet, *words], text=True).strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose newest commit merges a change of AGENTS.md into the base branch."""
    folder = tmp_path / "repository"
    (folder / "evals").mkdir(parents=True)
    git(folder, "init", "-q")
    (folder / "greet.sh").write_text("echo Hello!\n")
    (folder / "AGENTS.md").write_text("Be nice.\n")
    shutil.copy(SUITE, folder / "evals")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "base")
    git(folder, "checkout", "-q", "-b", "change")
    (folder / "AGENTS.md").write_text("Be nice. Use the shell.\n")
    git(folder, "commit", "-q", "-a", "-m", "change")
    git(folder, "checkout", "-q", "main")
    git(folder, "merge", "-q", "--no-ff", "-m", "merge", "change")
    return folder


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What installs nothing, and an agent that is installed."""
    folder = tmp_path / "programs"
    folder.mkdir()
    scripts = dict.fromkeys(("npm", "pip", "apt-get"), '#!/bin/sh\necho "$0 $@"\n')
    for name, script in {**scripts, "opencode": OPENCODE}.items():
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)
    (folder / "twoarm").symlink_to(TWOARM)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("TWOARM_CACHE", str(tmp_path / "cache"))
    return folder


class WorkflowRun:
    """Every job of the workflow whose condition holds, each on a machine of its own."""

    def __init__(
        self, folder: Path, repository: Path, event: Any, forge: Stub, secrets: dict[str, str]
    ) -> None:
        text = WORKFLOW.read_text().replace("COMMIT", COMMIT)
        self._workflow = yaml.safe_load(text)
        self._repository, self._artifacts = repository, Artifacts()
        self.codes: dict[str, int | None] = {}
        self.machines: dict[str, Machine] = {}
        needs: dict[str, Any] = {}
        for name, job in self._workflow["jobs"].items():
            context = {"needs": needs, "secrets": secrets}
            if not holds(job.get("if"), context, failed=any(self.codes.values())):
                self.codes[name] = None
                continue
            machine = Machine(
                folder / name,
                {
                    "GITHUB_EVENT_NAME": "pull_request",
                    "GITHUB_REPOSITORY": "o/r",
                    "GITHUB_API_URL": forge.url,
                },
            )
            machine.env["GITHUB_EVENT_PATH"] = event_file(machine, event)
            self.machines[name] = machine
            needs[name] = {"outputs": self._steps(name, job, machine, context)}

    def _steps(
        self, name: str, job: dict[str, Any], machine: Machine, context: dict[str, Any]
    ) -> dict[str, str]:
        steps: dict[str, Any] = {}
        code = 0
        for step in job["steps"]:
            uses, given = step.get("uses", ""), step.get("with", {})
            if code:
                continue
            if uses.startswith("actions/checkout@"):
                assert given == {"fetch-depth": 2, "persist-credentials": False}
                words = ["git", "clone", "-q", "--depth=2", f"file://{self._repository}", "."]
                subprocess.run(words, cwd=machine.workspace, check=True)
            elif uses.startswith("actions/download-artifact@"):
                shutil.copytree(
                    self._artifacts[given["name"]], machine.workspace, dirs_exist_ok=True
                )
            elif uses == f"OWNER/twoarm@{COMMIT}":
                own = {key: filled(text, context) for key, text in step.get("env", {}).items()}
                machine.env |= own
                inputs = {"token": TOKEN if name == "judge" else "read-only", **given}
                ran = CompositeRun(machine, str(TWOARM), inputs, self._artifacts)
                machine.env = {k: v for k, v in machine.env.items() if k not in own}
                steps[step.get("id", "")] = {"outputs": ran.outputs}
                code = ran.code
            else:
                code, _ = machine.bash(step["run"], {})
        self.codes[name] = code
        outputs = job.get("outputs", {})
        return {key: filled(text, {"steps": steps}) for key, text in outputs.items()}


KEY = {"OPENAI_API_KEY": "sk-0123456789abcdef"}


def test_a_change_of_agents_md_is_run_judged_and_commented_on(
    repository: Path, programs: Path, forge: Stub, tmp_path: Path
) -> None:
    ran = WorkflowRun(tmp_path / "jobs", repository, {"pull_request": pull()}, forge, KEY)
    log = ran.machines["run"].log
    # Two tasks say nothing of others like them, so the evidence promotes nothing.
    assert ran.codes == {"run": 3, "judge": 3}, log + ran.machines["judge"].log
    assert "npm install --global opencode-ai" in log
    (body,) = forge.bodies()
    assert "Not enough data" in body
    assert "100.0%" in body
    assert "0.0%" in body
    assert KEY["OPENAI_API_KEY"] not in log + body
    assert not (ran.machines["judge"].workspace / "evals").exists()


def test_a_fork_is_green_and_nothing_is_judged(
    repository: Path, programs: Path, forge: Stub, tmp_path: Path
) -> None:
    event = {"pull_request": pull(fork=True)}
    ran = WorkflowRun(tmp_path / "jobs", repository, event, forge, {})
    assert ran.codes == {"run": 0, "judge": None}
    assert "it comes from a fork" in ran.machines["run"].summary
    assert forge.asked == []


def test_a_change_that_removes_the_file_is_told_what_to_write(
    repository: Path, programs: Path, forge: Stub, tmp_path: Path
) -> None:
    git(repository, "rm", "-q", "AGENTS.md")
    git(repository, "commit", "-q", "-m", "gone")
    ran = WorkflowRun(tmp_path / "jobs", repository, {"pull_request": pull()}, forge, KEY)
    assert ran.codes == {"run": 2, "judge": None}
    log = ran.machines["run"].log
    assert "arms.with_change.files.AGENTS.md: no file `../AGENTS.md`" in log
    assert 'if the change is to have no such file, write remove = ["AGENTS.md"] instead' in log


def test_a_budget_that_is_spent_is_not_enough_data(
    repository: Path, programs: Path, forge: Stub, tmp_path: Path
) -> None:
    suite = repository / "evals" / SUITE.name
    suite.write_text(suite.read_text().replace("budget_usd = 5.0", "budget_usd = 0.8"))
    git(repository, "commit", "-q", "-a", "-m", "less")
    ran = WorkflowRun(tmp_path / "jobs", repository, {"pull_request": pull()}, forge, KEY)
    assert ran.codes == {"run": 3, "judge": 3}
    assert "the budget" in forge.bodies()[0]


def test_a_budget_without_a_limit_for_a_trial_is_told_what_to_write(
    repository: Path, programs: Path, forge: Stub, tmp_path: Path
) -> None:
    suite = repository / "evals" / SUITE.name
    suite.write_text(suite.read_text().replace("trial_usd = 0.25\n", ""))
    git(repository, "commit", "-q", "-a", "-m", "no limit")
    ran = WorkflowRun(tmp_path / "jobs", repository, {"pull_request": pull()}, forge, KEY)
    assert ran.codes == {"run": 2, "judge": None}
    assert "trial_usd" in ran.machines["run"].log


def test_the_workflow_is_short_and_the_document_shows_all_of_it() -> None:
    text = WORKFLOW.read_text()
    assert len(text.splitlines()) <= 30
    document = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    for path, kind in ((WORKFLOW, "yaml"), (GITLAB, "yaml"), (SUITE, "toml")):
        assert f"```{kind}\n{path.read_text()}```\n" in document


# GitLab.


def gitlab_job(name: str, folder: Path, forge: Stub, **variables: str) -> tuple[int, str]:
    """A job of the example, as a runner of GitLab runs it: one line after the other."""
    pipeline = yaml.safe_load(GITLAB.read_text())
    lines = [*pipeline["default"]["before_script"], *pipeline[name]["script"]]
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", "\n".join(lines)],
        cwd=folder,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "TWOARM_CACHE": os.environ["TWOARM_CACHE"],
            "GITLAB_CI": "true",
            "CI_API_V4_URL": f"{forge.url}/api/v4",
            "CI_PROJECT_ID": "42",
            "CI_MERGE_REQUEST_IID": "7",
            "CI_MERGE_REQUEST_PROJECT_ID": "42",
            "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "42",
            **variables,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def test_a_merge_request_is_run_judged_and_commented_on(
    repository: Path, programs: Path, forge: Stub
) -> None:
    base = git(repository, "rev-parse", "HEAD^1")
    git(repository, "checkout", "-q", "change")
    code, log = gitlab_job("run", repository, forge, CI_MERGE_REQUEST_DIFF_BASE_SHA=base, **KEY)
    assert code == 0, log
    forge.login = "project_42_bot"
    code, log = gitlab_job("judge", repository, forge, GITLAB_TOKEN=TOKEN)
    assert code == 3, log
    assert len(forge.comments) == 1
    assert (repository / "judged" / "junit.xml").exists()


# How many commits a runner fetches if nobody says.
GIT_DEPTH = 20


def fetched(repository: Path, folder: Path, depth: int) -> Path:
    """The branch as a runner checks it out; 0 is all of it."""
    words = [f"--depth={depth}"] if depth else []
    url = f"file://{repository}"
    subprocess.run(["git", "clone", "-q", *words, "-b", "change", url, folder], check=True)
    return folder


def test_a_long_branch_is_compared_with_where_it_began(
    repository: Path, programs: Path, forge: Stub, tmp_path: Path
) -> None:
    base = git(repository, "rev-parse", "HEAD^1")
    git(repository, "checkout", "-q", "change")
    for number in range(GIT_DEPTH + 5):
        git(repository, "commit", "-q", "--allow-empty", "-m", str(number))
    variables = yaml.safe_load(GITLAB.read_text())["run"]["variables"]
    code, log = gitlab_job(
        "run",
        fetched(repository, tmp_path / "whole", int(variables["GIT_DEPTH"])),
        forge,
        CI_MERGE_REQUEST_DIFF_BASE_SHA=base,
        **KEY,
    )
    assert code == 0, log
    code, log = gitlab_job(
        "run",
        fetched(repository, tmp_path / "shallow", GIT_DEPTH),
        forge,
        CI_MERGE_REQUEST_DIFF_BASE_SHA=base,
        **KEY,
    )
    assert code == 2
    assert f"no commit `{base}` in a git repository; this clone is shallow: fetch more" in log


def test_a_ref_that_is_nowhere_is_not_for_want_of_history(
    repository: Path, programs: Path, forge: Stub
) -> None:
    code, log = gitlab_job("run", repository, forge, CI_MERGE_REQUEST_DIFF_BASE_SHA="f" * 40, **KEY)
    assert (code, "shallow" in log) == (2, False)


def test_a_merge_request_of_a_fork_is_green(repository: Path, programs: Path, forge: Stub) -> None:
    for name, why in (("run", "a fork has no key"), ("judge", "there are no runs to judge")):
        code, log = gitlab_job(name, repository, forge, CI_MERGE_REQUEST_SOURCE_PROJECT_ID="43")
        assert (code, why in log) == (0, True)
    assert forge.asked == []


def test_a_key_that_a_project_lacks_is_red(repository: Path, programs: Path, forge: Stub) -> None:
    base = git(repository, "rev-parse", "HEAD^1")
    code, log = gitlab_job("run", repository, forge, CI_MERGE_REQUEST_DIFF_BASE_SHA=base)
    assert (code, "OPENAI_API_KEY" in log) == (2, True)


# What other programs say of these files.

CHECKED = {
    "the action": ["check-jsonschema", "--builtin-schema", "vendor.github-actions", "action.yml"],
    "the workflow": [
        *("check-jsonschema", "--builtin-schema", "vendor.github-workflows"),
        "examples/ci/agents-md.yml",
    ],
    "the release": [
        *("check-jsonschema", "--builtin-schema", "vendor.github-workflows"),
        ".github/workflows/release.yml",
    ],
    "the job of GitLab": [
        *("check-jsonschema", "--builtin-schema", "vendor.gitlab-ci"),
        "examples/ci/gitlab.yml",
    ],
}


def checked(*words: str | Path) -> None:
    program = Path(sys.executable).with_name(str(words[0]))
    done = subprocess.run(
        [program, *words[1:]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("what", CHECKED)
def test_files_are_what_their_schemas_say(what: str) -> None:
    checked(*CHECKED[what])


def test_nothing_is_unsafe(tmp_path: Path) -> None:
    copy = tmp_path / ".github" / "workflows" / WORKFLOW.name
    copy.parent.mkdir(parents=True)
    copy.write_text(WORKFLOW.read_text().replace("@COMMIT", f"@{COMMIT}"))
    release = ROOT / ".github" / "workflows" / "release.yml"
    checked("zizmor", "--offline", "--no-progress", ROOT / "action.yml", release, copy)


def test_scripts_are_clean() -> None:
    scripts = [*ROOT.glob("action/*.sh"), *ROOT.glob("tools/*.sh"), ROOT / ".ci" / "run"]
    assert len(scripts) > 5
    checked("shellcheck", *scripts)


def test_every_action_is_pinned() -> None:
    release = ROOT / ".github" / "workflows" / "release.yml"
    for path in (WORKFLOW, ROOT / "action.yml", release):
        for used in re.findall(r"uses: (\S+)", path.read_text()):
            assert re.search(r"@([0-9a-f]{40}|COMMIT)$", used), used
