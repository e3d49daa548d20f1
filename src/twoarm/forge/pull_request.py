"""Which pull request a job is about: as the forge itself says, and never a file of runs."""

import os
import re
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import quote

import msgspec

from twoarm.errors import InputError, UsageError
from twoarm.forge import github, gitlab
from twoarm.forge.call import Caller, ForgeError, understood
from twoarm.forge.comment import Forge
from twoarm.forge.github import GitHub, github_caller, pages
from twoarm.forge.gitlab import GitLab, gitlab_caller
from twoarm.text.escape import named, visible

_LARGEST_EVENT = 50_000_000
# Events that are about one pull request, and have it in them.
_WITH_PULL_REQUEST = (
    "pull_request",
    "pull_request_target",
    "pull_request_review",
    "pull_request_review_comment",
)
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_REPOSITORY = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")


class NoPullRequestError(ForgeError):
    """There is nothing to comment on, and here is why."""


class PullRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Where a comment goes, and what it is about."""

    forge: Literal["github", "gitlab"]
    number: int
    # The newest commit of the change; empty where nobody says.
    commit: str
    # The job that was run, for people; empty likewise.
    job_url: str


class CiJob:
    """A job of CI, as its variables describe it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._on_gitlab = bool(environment.get("GITLAB_CI"))

    def pull_request(self, number: int | None = None) -> tuple[PullRequest, Forge]:
        """The pull request of this job, or that of a number, and its comments.

        ForgeError says why there are none.
        """
        return self._merge_request(number) if self._on_gitlab else self._pull_request(number)

    def _get(self, *names: str) -> str:
        return next((text for name in names if (text := self._environment.get(name))), "")

    def _token(self, *names: str) -> str:
        names = ("TWOARM_TOKEN", *names)
        for name in names:
            # A secret that was read from a file ends with its line.
            if token := self._get(name).strip():
                if not token.isascii() or not token.isprintable() or " " in token:
                    raise UsageError(f"{name}: not a token: it has characters that none has")
                return token
        raise NoPullRequestError(f"no token in {' or '.join(names)}")

    # GitHub.

    def _pull_request(self, number: int | None) -> tuple[PullRequest, Forge]:
        repository = self._get("GITHUB_REPOSITORY")
        if not repository:
            raise UsageError(
                "which pull request? this is not a job of GitHub Actions or GitLab CI; elsewhere, "
                "set GITHUB_REPOSITORY and give --pull-request"
            )
        if not _REPOSITORY.fullmatch(repository):
            raise UsageError(f"GITHUB_REPOSITORY: expected OWNER/NAME, got {named(repository)}")
        commit = ""
        if number is None:
            number, commit = self._of_github(repository)
        caller = self._github()
        request = PullRequest(
            forge="github",
            number=number,
            commit=commit if _COMMIT.fullmatch(commit) else "",
            job_url=self._github_job(repository),
        )
        return request, GitHub(caller, repository, number)

    def _of_github(self, repository: str) -> tuple[int, str]:
        """The number of the pull request, and its newest commit."""
        name, event = self._get("GITHUB_EVENT_NAME"), self._event()
        try:
            if name == "workflow_run":
                return _of_workflow_run(event, self._github(), repository)
            return _of_event(name, event)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise InputError(
                f"{visible(self._get('GITHUB_EVENT_PATH'))}: not what an event {named(name)} is: "
                f"{visible(repr(error))}"
            ) from error

    def _github(self) -> Caller:
        api = self._get("GITHUB_API_URL") or github.API
        return github_caller(api, self._token("GITHUB_TOKEN"))

    def _github_job(self, repository: str) -> str:
        server, run = self._get("GITHUB_SERVER_URL"), self._get("GITHUB_RUN_ID")
        return f"{server}/{repository}/actions/runs/{run}" if server and run.isdigit() else ""

    def _event(self) -> Mapping[str, Any]:
        path = self._get("GITHUB_EVENT_PATH")
        if not path:
            raise UsageError("GITHUB_EVENT_PATH is not set: nobody says which pull request it is")
        try:
            if os.path.getsize(path) > _LARGEST_EVENT:
                raise InputError(f"{visible(path)}: too large for an event")
            with open(path, "rb") as file:
                event = msgspec.json.decode(file.read())
        except (OSError, msgspec.DecodeError) as error:
            raise InputError(f"{visible(path)}: not an event: {visible(str(error))}") from error
        if not isinstance(event, dict):
            raise InputError(f"{visible(path)}: not an event: expected an object")
        return event

    # GitLab.

    def _merge_request(self, number: int | None) -> tuple[PullRequest, Forge]:
        known = self._get("CI_MERGE_REQUEST_IID")
        # Of a fork, the pipeline may run in another project than the one that is merged into.
        project = self._get("CI_MERGE_REQUEST_PROJECT_ID", "CI_PROJECT_ID")
        if number is None:
            if not (known.isascii() and known.isdigit()):
                raise NoPullRequestError("this pipeline is not one of a merge request")
            number = int(known)
        if not project:
            raise UsageError("CI_PROJECT_ID is not set: nobody says which project it is")
        api = self._get("CI_API_V4_URL") or gitlab.API
        caller = gitlab_caller(api, self._token("GITLAB_TOKEN"))
        commit = self._get("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA", "CI_COMMIT_SHA")
        request = PullRequest(
            forge="gitlab",
            number=number,
            commit=commit if _COMMIT.fullmatch(commit) else "",
            job_url=self._get("CI_JOB_URL"),
        )
        web = self._get("CI_MERGE_REQUEST_PROJECT_URL")
        web = f"{web}/-/merge_requests/{number}" if web else ""
        return request, GitLab(caller, project, number, web)


def _of_event(name: str, event: Mapping[str, Any]) -> tuple[int, str]:
    """The number of the pull request that an event is about, and its newest commit."""
    if name in _WITH_PULL_REQUEST:
        pull_request = event["pull_request"]
        return int(pull_request["number"]), str(pull_request["head"]["sha"])
    issue = event.get("issue") or {}
    if name == "issue_comment" and issue.get("pull_request"):
        return int(issue["number"]), ""
    raise NoPullRequestError(f"the event {named(name)} is not about a pull request")


def _of_workflow_run(event: Mapping[str, Any], caller: Caller, repository: str) -> tuple[int, str]:
    """The one open pull request of the commit that another workflow ran on.

    The event lists none for forks. A commit that is no longer the newest has none, either: what
    was found about it would be posted over what is found about its successor.
    """
    run = event["workflow_run"]
    if not str(run["event"]).startswith("pull_request"):
        raise NoPullRequestError(f"the workflow ran for the event {named(str(run['event']))}")
    commit, source = str(run["head_sha"]), run.get("head_repository") or {}
    if source.get("id") is None:
        raise NoPullRequestError(f"the repository that the commit {commit[:12]} is from is gone")
    owner = (source.get("owner") or {}).get("login") or ""
    head = quote(f"{owner}:{run.get('head_branch') or ''}", safe="")
    path = f"{caller.prefix}/repos/{quote(repository)}/pulls?state=open&head={head}&"
    with understood():
        same = [
            int(each["number"])
            for each in pages(caller, path)
            if each["head"]["sha"] == commit
            and (each["head"].get("repo") or {}).get("id") == source["id"]
            and each["base"]["repo"]["full_name"] == repository
        ]
    if len(same) != 1:
        raise NoPullRequestError(
            f"{len(same) or 'no'} open pull requests have the commit {commit[:12]} as their newest"
        )
    return same[0], commit
