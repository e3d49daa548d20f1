"""One comment on a pull request: found again, kept up to date, and never anybody else's."""

import time
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path

import pytest

from tests.conftest import both, lines, run, twoarm
from tests.forge.conftest import COMMIT, CiVariables, pull
from tests.support.forge_stub import BOT, BROKEN_OFF, LOST, TOKEN, Answer, Stub
from twoarm.forge.call import LONGEST_WAIT_SECONDS
from twoarm.render.github import MARKER

FIRST = "https://forge.example/c/1"
POSTED = f"twoarm: posted a comment on #7: {FIRST}\n"
UPDATED = f"twoarm: updated the comment on #7: {FIRST}\n"


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    """Another file of runs, with another verdict."""
    path = tmp_path / "changed.jsonl"
    runs = [one for repeat in range(1, 6) for one in both(repeat=repeat)]
    slow = [
        each | {"duration_seconds": 300.0} if each["arm"] == "with_skelly" else each
        for each in runs
    ]
    path.write_bytes(lines(slow))
    return path


def test_the_first_result_is_posted_and_the_next_one_takes_its_place(
    job: CiVariables, forge: Stub, runs: Path, changed: Path
) -> None:
    first = twoarm("comment", str(runs))
    assert (first.code, first.err) == (0, POSTED)
    assert first.out == twoarm("score", str(runs)).out
    (body,) = forge.bodies()
    assert body.startswith(f"{MARKER}\n\n## ✅ Promote\n")
    about = f"<sub>Commit {COMMIT[:12]}, [job](https://forge.example/o/r/actions/runs/12)</sub>"
    assert body.endswith(f"</details>\n\n{about}\n")
    second = twoarm("comment", str(changed))
    assert (second.code, second.err) == (0, UPDATED)
    assert len(forge.comments) == 1
    assert "## ❌" in forge.bodies()[0]
    assert forge.tokens == {f"Bearer {TOKEN}"}


def test_the_same_result_changes_nothing(
    job: CiVariables, forge: Stub, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    twoarm("comment", str(runs))
    # As a browser would send it.
    forge.comments[0]["body"] = forge.bodies()[0].replace("\n", "\r\n")
    before = len(forge.asked)
    again = twoarm("comment", str(runs))
    assert again.err == f"twoarm: nothing new for the comment on #7: {FIRST}\n"
    assert not [line for line in forge.asked[before:] if line.startswith("PATCH")]


def test_each_key_has_a_comment_of_its_own(job: CiVariables, forge: Stub, runs: Path) -> None:
    for key in ([], ["--key", "codex"], ["--key", "claude-code"], ["--key", "codex"], []):
        assert twoarm("comment", str(runs), *key).code == 0
    marks = [body.partition("\n")[0] for body in forge.bodies()]
    assert marks == [
        "<!-- twoarm report -->",
        "<!-- twoarm report codex -->",
        "<!-- twoarm report claude-code -->",
    ]


@pytest.mark.parametrize("key", ["", "--> @everyone", "a--b", "-a", "x" * 61, "a b", "a\nb", "ä"])
def test_a_key_cannot_end_the_line_it_is_in(
    job: CiVariables, forge: Stub, runs: Path, key: str
) -> None:
    refused = twoarm("comment", str(runs), f"--key={key}")
    assert refused.code == 2
    assert "--key: expected" in refused.err
    assert forge.asked == []


def test_the_comment_of_somebody_else_is_left_alone(
    job: CiVariables, forge: Stub, runs: Path
) -> None:
    theirs = [forge.add(f"{MARKER}\nmine!", "mallory"), forge.add(f"I saw {MARKER}", BOT)]
    before = [dict(each) for each in theirs]
    assert twoarm("comment", str(runs)).code == 0
    assert [dict(each) for each in theirs] == before
    assert len(forge.comments) == 3


@pytest.mark.parametrize("login", [None, "my-app[bot]"])
def test_a_comment_is_found_by_who_the_token_belongs_to(
    job: CiVariables, forge: Stub, runs: Path, changed: Path, login: str | None
) -> None:
    forge.login = login
    for path in (runs, changed):
        assert twoarm("comment", str(path)).code == 0
    (made,) = forge.comments
    assert made["user"]["login"] == (login or BOT)


def test_a_comment_is_found_on_a_later_page(job: CiVariables, forge: Stub, runs: Path) -> None:
    for number in range(250):
        forge.add(f"comment {number}", "somebody")
    forge.add(f"{MARKER}\nold")
    assert twoarm("comment", str(runs)).err == UPDATED.replace(FIRST, FIRST[:-1] + "251")
    assert len(forge.comments) == 251
    # A user who is gone has no name.
    forge.comments[0]["user"] = None
    assert twoarm("comment", str(runs)).code == 0
    assert len(forge.comments) == 251


def test_a_comment_whose_answer_was_lost_is_not_posted_twice(
    job: CiVariables, forge: Stub, runs: Path
) -> None:
    # The first POST asks for the login.
    forge.faults["POST"] = [(200, {}, '{"data": null}'), LOST]
    done = twoarm("comment", str(runs))
    assert (done.code, done.err) == (0, POSTED)
    assert len(forge.comments) == 1


SERVER_ERRORS: list[Answer] = [(500, {}, "x"), (502, {}, "<html>"), (503, {}, "")]


def test_a_comment_that_was_not_made_is_made_again(
    job: CiVariables, forge: Stub, runs: Path
) -> None:
    forge.faults["POST"] = [(200, {}, '{"data": null}'), SERVER_ERRORS[0], SERVER_ERRORS[1]]
    assert twoarm("comment", str(runs)).err == POSTED
    assert len(forge.comments) == 1


def test_nobody_asks_for_ever(
    job: CiVariables, forge: Stub, runs: Path, waited: list[float]
) -> None:
    forge.faults["GET"] = SERVER_ERRORS * 10
    done = twoarm("comment", str(runs))
    assert done.code == 0
    assert "no comment was posted: GET /repos/o/r/issues/7/comments: 502" in done.err
    assert "5 times" in done.err
    assert forge.comments == []
    assert len(waited) == 4


def test_a_server_that_recovers_is_asked_again(
    job: CiVariables, forge: Stub, runs: Path, waited: list[float]
) -> None:
    forge.faults["GET"] = list(SERVER_ERRORS)
    assert twoarm("comment", str(runs)).err == POSTED
    assert waited == sorted(waited)
    assert len(waited) == 3


def test_a_refusal_that_breaks_off_is_one_like_any_other(
    job: CiVariables, forge: Stub, runs: Path
) -> None:
    forge.faults["GET"] = [BROKEN_OFF, BROKEN_OFF]
    assert twoarm("comment", str(runs)).err == POSTED


def in_seconds(seconds: int) -> str:
    return formatdate(time.time() + seconds, usegmt=True)


def reset_in(seconds: int) -> dict[str, str]:
    reset = str(int(time.time()) + seconds)
    return {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset}


# What is answered, made when it is needed, and how long is waited then.
LIMITS: dict[str, tuple[Callable[[], Answer], float]] = {
    "429": (lambda: (429, {"Retry-After": "7"}, "slow down"), 7.0),
    "403 with a time": (lambda: (403, {"Retry-After": "9"}, "secondary"), 9.0),
    "a date": (lambda: (429, {"Retry-After": in_seconds(30)}, ""), 30.0),
    "a date that is none": (lambda: (429, {"Retry-After": "soon"}, ""), 1.1),
    "a date in the past": (lambda: (429, {"Retry-After": in_seconds(-99)}, ""), 1.0),
    "no time": (lambda: (403, {}, "You have exceeded a secondary rate limit"), 1.1),
    "a budget that comes back": (lambda: (403, reset_in(40), ""), 40.0),
}


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_limit_is_waited_for(
    job: CiVariables, forge: Stub, runs: Path, waited: list[float], limit: str, method: str
) -> None:
    make, seconds = LIMITS[limit]
    login: list[Answer] = [(200, {}, '{"data": null}')] if method == "POST" else []
    forge.faults[method] = [*login, make()]
    assert twoarm("comment", str(runs)).err == POSTED
    (wait,) = waited
    # A date comes nearer until it is read; nobody is asked again at once.
    assert max(1.0, seconds - 5.0) <= wait <= seconds + 0.2
    assert len(forge.comments) == 1


@pytest.mark.parametrize(
    "headers",
    [
        {"Retry-After": "3600"},
        {"Retry-After": "9" * 5_000},
        {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "9999999999"},
        {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "9" * 400},
        {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "9" * 5_000},
    ],
    ids=["an hour", "for ever", "a date", "a date after all", "no date"],
)
def test_a_limit_of_an_hour_is_not_waited_for(
    job: CiVariables, forge: Stub, runs: Path, waited: list[float], headers: dict[str, str]
) -> None:
    forge.faults["GET"] = [(403, headers, "")]
    done = twoarm("comment", str(runs))
    assert done.code == 0
    assert "try again in " in done.err
    assert sum(waited) <= LONGEST_WAIT_SECONDS


def test_a_token_that_only_reads_is_no_error(
    job: CiVariables, forge: Stub, runs: Path, changed: Path
) -> None:
    forge.may_write = False
    job.event("pull_request", {"pull_request": pull(fork=True)})
    job.set(GITHUB_ACTIONS="true")
    done = twoarm("comment", str(runs))
    assert done.code == 0
    assert done.err.startswith("::notice title=twoarm::no comment was posted: POST ")
    assert done.err.count("\n") == 1
    # The verdict is what it was.
    assert twoarm("comment", str(changed), "--exit-code").code == 1
    assert twoarm("comment", str(runs), "--exit-code").code == 0


def test_without_a_token_nobody_is_asked(job: CiVariables, forge: Stub, runs: Path) -> None:
    job.set(GITHUB_TOKEN=None)
    done = twoarm("comment", str(runs), "--exit-code")
    assert done.code == 0
    assert "no token in TWOARM_TOKEN or GITHUB_TOKEN" in done.err
    assert forge.asked == []


def test_a_token_of_its_own_comes_first(job: CiVariables, forge: Stub, runs: Path) -> None:
    job.set(TWOARM_TOKEN="github_pat_1")
    assert twoarm("comment", str(runs)).code == 0
    assert forge.tokens == {"Bearer github_pat_1"}


def test_a_token_may_end_with_a_line_and_has_none_within(
    job: CiVariables, forge: Stub, runs: Path
) -> None:
    job.set(GITHUB_TOKEN=f"{TOKEN}\n", TWOARM_TOKEN="\n")
    assert twoarm("comment", str(runs)).err == POSTED
    assert forge.tokens == {f"Bearer {TOKEN}"}
    for wrong in ("two\nlines", "two lines", "lïnes"):
        job.set(GITHUB_TOKEN=wrong)
        refused = twoarm("comment", str(runs))
        assert (refused.code, "nes" in refused.err) == (2, False)
        assert refused.err.startswith("twoarm: GITHUB_TOKEN: not a token")


def test_who_repeats_the_token_is_not_repeated(job: CiVariables, forge: Stub, runs: Path) -> None:
    forge.faults["GET"] = [(400, {}, f"{'x' * 190}{TOKEN} is bad")]
    done = twoarm("comment", str(runs))
    assert "*** is bad" in done.err
    assert TOKEN[:8] not in done.err


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_does_not_get_the_token(
    job: CiVariables, forge: Stub, runs: Path, status: int
) -> None:
    elsewhere = forge.url.replace("127.0.0.1", "localhost")
    forge.faults["GET"] = [(status, {"Location": f"{elsewhere}/repos/o/r/issues/7/comments"}, "")]
    done = twoarm("comment", str(runs))
    assert done.code == 0
    assert f"no comment was posted: GET /repos/o/r/issues/7/comments: {status}" in done.err
    assert {str(host).partition(":")[0] for host in forge.hosts} == {"127.0.0.1"}


@pytest.mark.parametrize("status", [400, 410, 422])
def test_another_refusal_is_told_and_not_repeated(
    job: CiVariables, forge: Stub, runs: Path, waited: list[float], status: int
) -> None:
    forge.faults["POST"] = [(200, {}, '{"data": null}'), (status, {}, "Validation\x1b[31m Failed")]
    done = twoarm("comment", str(runs))
    assert done.code == 0
    assert f"{status} Validation\\x1b[31m Failed" in done.err
    assert waited == []


@pytest.mark.parametrize(
    "answer",
    ["[1]", '[{"user": {}}]', '[{"user": "x"}]', '{"message": "x"}', "[[", "null", "[" * 100_000],
    ids=range(7),
)
def test_an_answer_of_another_kind_is_no_bug(
    job: CiVariables, forge: Stub, runs: Path, answer: str
) -> None:
    forge.faults["GET"] = [(200, {}, answer)] * 9
    done = twoarm("comment", str(runs))
    assert done.code == 0
    assert done.err.startswith("twoarm: no comment was posted: ")


def test_a_report_that_is_too_long_is_cut_before_it_is_posted(
    job: CiVariables, forge: Stub, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("twoarm.render.markdown.render", lambda analysis: "x" * 70_000)
    assert twoarm("comment", str(runs)).code == 0
    (body,) = forge.bodies()
    assert len(body) < 65_536
    assert "The full report is too long for a comment; see `analysis.md`." in body


def test_a_comment_that_no_forge_takes_is_not_sent(
    job: CiVariables, forge: Stub, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("twoarm.render.report.Report.to_github", lambda self: "x" * 70_000)
    done = twoarm("comment", str(runs))
    assert (done.code, forge.asked) == (0, [])
    assert "a comment of 70,0" in done.err


def test_a_name_cannot_be_taken_for_the_first_line(
    job: CiVariables, forge: Stub, tmp_path: Path
) -> None:
    path = tmp_path / "names.jsonl"
    path.write_bytes(lines([run(f"{MARKER}{n}", arm) for n in range(3) for arm in (MARKER, "b")]))
    words = ("--candidate", MARKER, "--baseline", "b", "--key", "mine")
    assert twoarm("comment", str(path), *words).code == 0
    (body,) = forge.bodies()
    first, _, rest = body.partition("\n")
    assert first == "<!-- twoarm report mine -->"
    assert "report mine" not in rest
    assert f"`{MARKER}`" in rest


def test_several_candidates_are_one_comment(job: CiVariables, forge: Stub, tmp_path: Path) -> None:
    path = tmp_path / "three.jsonl"
    path.write_bytes(lines([run(arm=arm, repeat=n) for arm in "abc" for n in range(1, 6)]))
    assert twoarm("comment", str(path), "--baseline", "c").code == 0
    (body,) = forge.bodies()
    assert body.startswith(f"{MARKER}\n")
    refused = twoarm("comment", str(path), "--baseline", "c", "--exit-code")
    assert (refused.code, len(forge.comments)) == (2, 1)


def test_bad_runs_are_not_posted(job: CiVariables, forge: Stub, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text("{}\n")
    assert twoarm("comment", str(tmp_path / "bad.jsonl")).code == 2
    assert twoarm("comment", str(tmp_path / "none.jsonl")).code == 2
    assert forge.asked == []


# GitHub Enterprise, GitLab.


def test_a_server_of_ones_own(job: CiVariables, forge: Stub, runs: Path) -> None:
    job.set(GITHUB_API_URL=f"{forge.url}/api/v3/")
    forge.login = "ci"
    assert twoarm("comment", str(runs)).err == POSTED
    forge.comments[0]["body"] += "changed"
    assert twoarm("comment", str(runs)).err == UPDATED
    assert len(forge.comments) == 1
    assert {line.partition("?")[0] for line in forge.asked} == {
        "POST /api/graphql",
        "GET /api/v3/repos/o/r/issues/7/comments",
        "POST /api/v3/repos/o/r/issues/7/comments",
        "PATCH /api/v3/repos/o/r/issues/comments/1",
    }


def test_the_note_of_a_merge_request(
    merge_request: CiVariables, forge: Stub, runs: Path, changed: Path
) -> None:
    forge.add(f"{MARKER}\nnot mine", "mallory")
    forge.comments.append({**forge.add("changed the title", forge.login or ""), "system": True})
    first = twoarm("comment", str(runs))
    note = "https://forge.example/o/r/-/merge_requests/7#note_4"
    assert first.err == f"twoarm: posted a comment on !7: {note}\n"
    second = twoarm("comment", str(changed), "--exit-code")
    assert second.code == 1
    assert second.err.startswith(f"twoarm: updated the comment on !7: {note}\n")
    assert len(forge.comments) == 4
    assert forge.tokens == {TOKEN}
    assert any("/projects/42/" in line for line in forge.asked)


def test_a_pipeline_of_a_fork_comments_where_it_is_merged(
    merge_request: CiVariables, forge: Stub, runs: Path
) -> None:
    merge_request.set(CI_MERGE_REQUEST_PROJECT_ID="o/group/r")
    assert twoarm("comment", str(runs)).code == 0
    assert any("/projects/o%2Fgroup%2Fr/" in line for line in forge.asked)


def test_a_pipeline_without_a_merge_request_posts_nothing(
    merge_request: CiVariables, forge: Stub, runs: Path
) -> None:
    merge_request.set(CI_MERGE_REQUEST_IID=None)
    done = twoarm("comment", str(runs))
    assert (done.code, forge.asked) == (0, [])
    assert "this pipeline is not one of a merge request" in done.err
    # Whoever names it knows better.
    assert twoarm("comment", str(runs), "--pull-request", "7").code == 0
    assert len(forge.comments) == 1
