"""Secrets: no form of one is left in anything that is kept."""

import base64
import json
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import twoarm
from tests.running import attempt, order_of, suite_of
from twoarm.run import strike as strike_module
from twoarm.run.strike import Strike, forms

SECRET = 'sk-ant/"ü+& 9Zq\\tail'
VALUES = {"KEY": SECRET, "OTHER": "plainsecret0123"}


def spelled(secret: str) -> list[bytes]:
    """A secret as programs write it, by other means than those that strike it out."""
    raw = secret.encode()
    return [
        raw,
        json.dumps(secret).encode()[1:-1],
        json.dumps(secret, ensure_ascii=False).encode()[1:-1],
        json.dumps(json.dumps([secret])).encode()[4:-4],
        quote(secret, safe="").encode(),
        quote(secret).encode(),
        quote_plus(secret).encode(),
        raw.hex().encode(),
        base64.b64encode(raw)[: len(raw) * 8 // 6],
        base64.urlsafe_b64encode(raw)[: len(raw) * 8 // 6],
    ]


@pytest.mark.parametrize("secret", VALUES.values())
def test_every_form_of_a_secret_is_struck_out(secret: str) -> None:
    text = Strike({"KEY": secret})
    for form in spelled(secret):
        struck = text.text("before " + form.decode() + " after").encode()
        assert form not in struck, form
        assert b"[secret KEY]" in struck


@pytest.mark.parametrize("before", ["", "a", "ab", "user:", "Bearer "])
@pytest.mark.parametrize("after", ["", "z", "zz"])
def test_a_secret_inside_something_that_is_base64_is_struck_out(before: str, after: str) -> None:
    whole = base64.b64encode((before + SECRET + after).encode()).decode()
    struck = Strike({"KEY": SECRET}).text(whole)
    assert "[secret KEY]" in struck
    # Of what is left, no three bytes in a row are of the secret.
    kept = struck.replace("[secret KEY]", "")
    assert len(kept) <= len(whole) - len(SECRET)


@given(st.binary(max_size=60), st.binary(max_size=60), st.integers(1, 40))
def test_a_secret_across_two_pieces_is_struck_out(head: bytes, tail: bytes, piece: int) -> None:
    import tempfile

    before = strike_module._PIECE
    strike_module._PIECE = piece
    try:
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder, "a"), Path(folder, "b")
            secret = VALUES["OTHER"].encode()
            source.write_bytes(head + secret + tail + secret)
            Strike(VALUES).copy(str(source), str(target), 10_000)
            struck = target.read_bytes()
            source.write_bytes(head + tail)
            Strike({}).copy(str(source), str(target), 10_000)
            assert target.read_bytes() == head + tail
    finally:
        strike_module._PIECE = before
    assert secret not in struck
    assert struck.count(b"[secret OTHER]") >= 2 or head.count(secret) or tail.count(secret)
    assert len(struck) == len(head) + len(tail) + 2 * len(b"[secret OTHER]")


def test_longer_forms_come_first() -> None:
    lengths = [len(form) for form in forms(SECRET)]
    assert lengths == sorted(lengths, reverse=True)


def held(folder: Path, secret: str) -> list[str]:
    """The files under a folder, by name or content, that hold a form of a secret."""
    found = []
    for path in folder.rglob("*"):
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        name = str(path.relative_to(folder)).encode()
        link = str(path.readlink()).encode() if path.is_symlink() else b""
        if any(form in content or form in name or form in link for form in spelled(secret)):
            found.append(str(path))
    return found


SCRIPT = """
printf '%s\\n' "$OTHER"; printf '%s' "$OTHER" >&2
printf '{"key": "%s"}\\n' "$OTHER"
printf '%s' "$OTHER" | base64; printf 'user:%s' "$OTHER" | base64
printf '%s' "$OTHER" | od -An -tx1 | tr -d ' \\n'
printf '%s' "$OTHER" > answer.txt; mkdir "d$OTHER"; touch "d$OTHER/$OTHER"; ln -s "$OTHER" link
printf '%s' "$OTHER" > $TMPDIR/usage.json
env
"""


def test_nothing_that_is_kept_holds_a_secret(tmp_path: Path) -> None:
    order = order_of(tmp_path, SCRIPT, secrets=VALUES, keep_workspace="all")
    env = {**order.env, "agent": {**order.env["agent"], **VALUES}}
    order = order_of(
        tmp_path, SCRIPT, secrets=VALUES, keep_workspace="all", env=env,
        acceptance_command="cat answer.txt; false",
    )  # fmt: skip
    ran = attempt(order)
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
