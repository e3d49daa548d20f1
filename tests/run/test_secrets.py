"""Secrets: no form of one is left in anything that is kept."""

from pathlib import Path

import pytest

from tests.conftest import twoarm
from tests.support.leaked_secrets import leaks
from tests.support.suite_files import attempt, job_of, suite_of

SECRET = 'sk-ant/"ü+& 9Zq\\tail'
VALUES = {"KEY": SECRET, "OTHER": "plainsecret0123"}


def held(folder: Path, secret: str) -> list[str]:
    """The files under a folder, by name or content, that a reader gets a secret out of."""
    found = []
    for path in folder.rglob("*"):
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        name = str(path.relative_to(folder)).encode()
        link = str(path.readlink()).encode() if path.is_symlink() else b""
        # A page has its scripts in it, and nothing of an agent that is not in smaller files.
        small = content if len(content) < 2**16 else b""
        if secret.encode() in content or any(leaks(text, secret) for text in (small, name, link)):
            found.append(str(path))
    return found


SCRIPT = """
printf '%s\\n' "$OTHER"; printf '%s' "$OTHER" >&2
printf '{"key": "%s"}\\n' "$OTHER"
printf '%s' "$OTHER" | base64; printf 'user:%s' "$OTHER" | base64
printf '%s' "$OTHER" | od -An -tx1 | tr -d ' \\n'
printf '%052d%s' 0 "$OTHER" | base64; printf '%010d%s' 0 "$OTHER" | od -tx1
printf '%s' "$OTHER" | sed 's/./&\\x00/g'
printf '%052d%s' 0 "$OTHER" | base64 > coded.txt
printf '%s' "$OTHER" > answer.txt; mkdir "d$OTHER"; touch "d$OTHER/$OTHER"; ln -s "$OTHER" link
printf '%s' "$OTHER" > $TMPDIR/usage.json
env
"""


def test_nothing_that_is_kept_holds_a_secret(tmp_path: Path) -> None:
    job = job_of(tmp_path, SCRIPT, secrets=VALUES, keep_workspace="all")
    env = {**job.env, "agent": {**job.env["agent"], **VALUES}}
    job = job_of(
        tmp_path, SCRIPT, secrets=VALUES, keep_workspace="all", env=env,
        acceptance={"": "cat answer.txt; false"},
    )  # fmt: skip
    ran = attempt(job)
    assert ran.outcome.complete
    assert "[secret OTHER]" in ran.kept("stdout.txt")
    assert "[secret OTHER]" in ran.kept("acceptance.log")
    assert "[secret OTHER]" in ran.kept("diff.patch")
    assert held(ran.folder, VALUES["OTHER"]) == []
    assert held(ran.folder, SECRET) == []


def test_a_whole_run_folder_holds_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWOARM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OTHER", VALUES["OTHER"])
    script = SCRIPT.replace("$TMPDIR/usage.json", "/dev/null") + "\nexit 3\n"
    path = suite_of(
        tmp_path / "suite", script, agent={"secrets": ["OTHER"]}, arms={"with": {"args": ["x"]}}
    )
    out = tmp_path / "out"
    result = twoarm("run", str(path), "--out", str(out), "--repeats", "1", "--keep", "all",
                    "--display", "quiet", "--no-evidence")  # fmt: skip
    assert result.code == 0, result.err
    assert len(list(out.glob("runs/*/*"))) == 4
    assert held(out, VALUES["OTHER"]) == []
    assert VALUES["OTHER"] not in result.out + result.err
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_secret_must_be_set_long_enough_and_out_of_the_suite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = suite_of(tmp_path, agent={"secrets": ["OTHER"]})
    monkeypatch.delenv("OTHER", raising=False)
    result = twoarm("run", str(path), "--out", str(tmp_path / "out"))
    assert (result.code, result.err) == (
        2,
        "twoarm: secret `OTHER` is not set; export it before you run\n",
    )
    monkeypatch.setenv("OTHER", "short")
    assert "fewer than 8 characters" in twoarm("run", str(path)).err
    monkeypatch.setenv("OTHER", VALUES["OTHER"])
    path = suite_of(tmp_path, agent={"secrets": ["OTHER"], "env": {"X": VALUES["OTHER"]}})
    told = twoarm("run", str(path)).err
    assert "the value of the secret `OTHER` is in the suite" in told
    assert VALUES["OTHER"] not in told
    assert not (tmp_path / "out").exists()
