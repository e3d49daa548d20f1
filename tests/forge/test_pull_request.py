"""Which pull request a job is about, and where nothing is posted because nobody can be sure."""

import json
from pathlib import Path

import pytest

from tests.conftest import twoarm
from tests.forge.conftest import COMMIT, CiVariables, pull, workflow_run
from tests.forge.test_comment import POSTED
from tests.support.forge_stub import Stub


@pytest.mark.parametrize("fork", [False, True])
def test_another_workflow_finds_the_pull_request_of_its_commit(
    job: CiVariables, forge: Stub, runs: Path, fork: bool
) -> None:
    forge.pulls = [pull(fork=fork), pull(fork=fork, number=8, commit="b" * 40)]
    job.event("workflow_run", workflow_run(fork=fork))
    assert twoarm("comment", str(runs)).err == POSTED
    assert COMMIT[:12] in forge.bodies()[0]


STALE = {
    "no pull request": [],
    "a newer commit": [pull(fork=True, commit="b" * 40)],
    "another repository of the same name": [pull(fork=True) | {"head": pull()["head"]}],
    "another base": [pull(fork=True) | {"base": {"repo": {"full_name": "x/y"}}}],
    "a head that is gone": [pull(fork=True) | {"head": {"sha": COMMIT, "repo": None}}],
    "two of them": [pull(fork=True), pull(fork=True, number=9)],
}


@pytest.mark.parametrize("case", STALE)
def test_another_workflow_posts_nothing_in_doubt(
    job: CiVariables, forge: Stub, runs: Path, case: str
) -> None:
    forge.pulls = STALE[case]
    job.event("workflow_run", workflow_run(fork=True))
    done = twoarm("comment", str(runs))
    assert (done.code, forge.comments) == (0, [])
    assert f"open pull requests have the commit {COMMIT[:12]} as their newest" in done.err


@pytest.mark.parametrize("name", ["push", "schedule", "workflow_dispatch", "issue_comment"])
def test_other_events_are_about_no_pull_request(
    job: CiVariables, forge: Stub, runs: Path, name: str
) -> None:
    job.event(name, {"issue": {"number": 7}, "ref": "refs/heads/main"})
    done = twoarm("comment", str(runs), "--exit-code")
    assert (done.code, forge.asked) == (0, [])
    assert f"the event `{name}` is not about a pull request" in done.err


def test_two_repositories_that_are_gone_are_not_the_same(
    job: CiVariables, forge: Stub, runs: Path
) -> None:
    event = workflow_run(fork=True)
    event["workflow_run"]["head_repository"] = None
    gone = {"head": {"sha": COMMIT, "repo": None}, "label": ":x"}
    forge.pulls = [pull(fork=True) | gone]
    job.event("workflow_run", event)
    done = twoarm("comment", str(runs))
    assert (done.code, forge.comments) == (0, [])
    assert f"the repository that the commit {COMMIT[:12]} is from is gone" in done.err


# A pull request that is the one, if its number were one.
NO_NUMBER = json.dumps([pull(fork=True) | {"number": "x"}])


@pytest.mark.parametrize("answer", ["[1]", "[{}]", '{"message": "x"}', '[{"head": 5}]', NO_NUMBER])
def test_an_odd_list_of_pull_requests_is_no_odd_event(
    job: CiVariables, forge: Stub, runs: Path, answer: str
) -> None:
    forge.faults["GET"] = [(200, {}, answer)]
    job.event("workflow_run", workflow_run(fork=True))
    done = twoarm("comment", str(runs))
    assert done.code == 0
    assert done.err.startswith("twoarm: no comment was posted: ")


def test_a_workflow_for_a_push_is_about_no_pull_request(
    job: CiVariables, forge: Stub, runs: Path
) -> None:
    job.event("workflow_run", workflow_run(fork=False, event="push"))
    assert "the workflow ran for the event `push`" in twoarm("comment", str(runs)).err
    assert forge.asked == []


def test_a_comment_may_ask_for_a_report(job: CiVariables, forge: Stub, runs: Path) -> None:
    job.event("issue_comment", {"issue": {"number": 7, "pull_request": {"url": "x"}}})
    assert twoarm("comment", str(runs)).err == POSTED


BAD_EVENTS = [
    *("", "{", "[]", "{}", '{"pull_request": null}', '{"pull_request": {"number": "x"}}'),
    '{"pull_request": {"number": 1, "head": []}}',
]


@pytest.mark.parametrize("event", BAD_EVENTS)
def test_an_event_that_is_none_is_bad_input(
    job: CiVariables, forge: Stub, runs: Path, event: str
) -> None:
    job.event("pull_request", event)
    refused = twoarm("comment", str(runs))
    assert refused.code == 2
    assert "event.json: not " in refused.err
    assert forge.asked == []


BAD_JOBS: list[tuple[dict[str, str | None], str]] = [
    ({"GITHUB_REPOSITORY": None}, "this is not a job of GitHub Actions or GitLab CI"),
    ({"GITHUB_REPOSITORY": "o"}, "GITHUB_REPOSITORY: expected OWNER/NAME, got `o`"),
    ({"GITHUB_REPOSITORY": "o/r/../../x"}, "expected OWNER/NAME"),
    ({"GITHUB_EVENT_PATH": None}, "GITHUB_EVENT_PATH is not set"),
    ({"GITHUB_API_URL": "ftp://x"}, "ftp://x: expected the address of an API"),
]


NO_ADDRESSES = [
    *("https://me:pw@x", "https://:pw@x", "http://[::1", "http://x:port", "http://x:99999"),
    *("https://x/ä", "https://ä", "https://a b", "https://x/?a=b", "https://x/#a", "https://"),
]
BAD_JOBS += [({"GITHUB_API_URL": url}, "expected the address of an API") for url in NO_ADDRESSES]


@pytest.mark.parametrize(("variables", "message"), BAD_JOBS)
def test_a_job_that_is_set_up_badly_is_an_error(
    job: CiVariables, forge: Stub, runs: Path, variables: dict[str, str | None], message: str
) -> None:
    job.set(**variables)
    refused = twoarm("comment", str(runs))
    assert refused.code == 2
    assert message in refused.err


def test_elsewhere_the_pull_request_is_named(job: CiVariables, forge: Stub, runs: Path) -> None:
    job.set(GITHUB_EVENT_PATH=None, GITHUB_EVENT_NAME=None, GITHUB_RUN_ID=None)
    assert twoarm("comment", str(runs), "--pull-request", "7").err == POSTED
    assert forge.bodies()[0].endswith("</details>\n")
    assert twoarm("comment", str(runs), "--pull-request", "0").code == 2
