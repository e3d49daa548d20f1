"""A forge on loopback, a job that it started, and no time that passes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.forge_stub import TOKEN, Stub, a_forge
from twoarm.forge.call import Caller

COMMIT = "a" * 40


def pull(*, fork: bool = False, number: int = 7, commit: str = COMMIT) -> dict[str, Any]:
    """A pull request as events and lists have it."""
    owner = "m" if fork else "o"
    repo = {"id": 5 if fork else 1, "full_name": f"{owner}/r", "owner": {"login": owner}}
    return {
        "number": number,
        "label": f"{owner}:x",
        "head": {"sha": commit, "ref": "x", "repo": repo},
        "base": {"repo": {"id": 1, "full_name": "o/r"}},
    }


def workflow_run(*, fork: bool, event: str = "pull_request") -> dict[str, Any]:
    head = pull(fork=fork)["head"]
    run = {"event": event, "head_sha": head["sha"], "head_branch": "x", "pull_requests": []}
    return {"workflow_run": {**run, "head_repository": head["repo"]}}


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was waited, each time."""
    seconds: list[float] = []
    monkeypatch.setattr(Caller, "wait", lambda self, wait: seconds.append(wait))
    return seconds


@pytest.fixture
def forge(waited: list[float]) -> Iterator[Stub]:
    with a_forge() as stub:
        yield stub


class CiVariables:
    """The variables of a job, which tests may change."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._event = tmp_path / "event.json"
        self._patch = monkeypatch

    def set(self, **variables: str | None) -> None:
        for name, text in variables.items():
            if text is None:
                self._patch.delenv(name, raising=False)
            else:
                self._patch.setenv(name, text)

    def event(self, name: str, event: Any) -> None:
        self._event.write_text(event if isinstance(event, str) else json.dumps(event))
        self.set(GITHUB_EVENT_NAME=name, GITHUB_EVENT_PATH=str(self._event))


@pytest.fixture
def job(forge: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CiVariables:
    """A job of GitHub Actions for a pull request."""
    for name in ("GITLAB_CI", "TWOARM_TOKEN", "GITHUB_STEP_SUMMARY", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)
    made = CiVariables(tmp_path, monkeypatch)
    made.set(
        GITHUB_API_URL=forge.url,
        GITHUB_REPOSITORY="o/r",
        GITHUB_TOKEN=TOKEN,
        GITHUB_SERVER_URL="https://forge.example",
        GITHUB_RUN_ID="12",
    )
    made.event("pull_request", {"pull_request": pull()})
    return made


@pytest.fixture
def merge_request(forge: Stub, job: CiVariables) -> CiVariables:
    """A job of GitLab CI for a merge request."""
    job.set(
        GITLAB_CI="true",
        CI_API_V4_URL=f"{forge.url}/api/v4",
        CI_PROJECT_ID="42",
        CI_MERGE_REQUEST_PROJECT_ID=None,
        CI_MERGE_REQUEST_IID="7",
        CI_MERGE_REQUEST_PROJECT_URL="https://forge.example/o/r",
        CI_MERGE_REQUEST_SOURCE_BRANCH_SHA=COMMIT,
        GITLAB_TOKEN=TOKEN,
    )
    forge.login = "project_42_bot"
    return job
