"""What an agent changed: all of it, by content, and with no git that reads what the agent left."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.suite_files import Ran, attempt, committed, job_of
from twoarm.files.safe import OpenFolder
from twoarm.run.supervisor.manifest import FILE, OTHER, kind_of, walk
from twoarm.run.supervisor.patch import may_hold_keys


def applied(ran: Ran, tree: Path, target: Path) -> dict[str, bytes]:
    """The tree with both patches, file by file, by a git that knows nothing of ours."""
    subprocess.run(["cp", "-a", str(tree), str(target)], check=True)
    subprocess.run(["rm", "-rf", str(target / ".git")], check=True)
    for name in ("diff.patch", "ignored.patch"):
        if (ran.folder / name).exists() and (ran.folder / name).stat().st_size:
            subprocess.run(
                ["git", "apply", "--unsafe-paths", "--directory=.", str(ran.folder / name)],
                cwd=target,
                check=True,
                env={**os.environ, "GIT_CEILING_DIRECTORIES": str(target.parent)},
            )
    return content(target)


def content(folder: Path) -> dict[str, bytes]:
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if ".git" in name.split("/"):
            continue
        if path.is_symlink():
            found[name] = b"-> " + os.fsencode(path.readlink())
        elif path.is_file():
            found[name] = oct(path.stat().st_mode & 0o100).encode() + path.read_bytes()
    return found


CHANGES = """
echo more >> README.md
rm tests/check.sh; mkdir tests/check.sh; echo now a folder > tests/check.sh/file
rm -r was; echo now a file > was; rm -r linked; ln -s new linked
chmod +x plain; chmod -x program; mkdir -p new/deep; printf 'a\\0b\\1' > new/deep/binary
printf 'a\\0c' > binary; ln -sfn new link; rm gone; : > empty
printf 'two\\nlines without end' > 'odd "name" \u00e9'; printf x > "$(printf 'line\\nbreak')"
echo crlf | sed 's/$/\\r/' > crlf.txt; echo 'x' > -dash; echo done > build/out.o
printf '*.o\\nbuild/\\n' > .gitignore; echo 1 > other.o; touch answer.txt
"""


def tree_of(folder: Path) -> Path:
    tree = folder / "tree"
    (tree / "tests").mkdir(parents=True)
    (tree / "build").mkdir()
    (tree / "was" / "folder").mkdir(parents=True)
    (tree / "linked").mkdir()
    for name in (
        *("README.md", "plain", "program", "gone", "tests/check.sh", "was/folder/file"),
        "linked/file",
    ):
        (tree / name).write_text(f"{name}\n")
    (tree / "program").chmod(0o755)
    (tree / "binary").write_bytes(b"a\0b")
    (tree / "build" / "old.o").write_text("made by setup\n")
    (tree / "link").symlink_to("was")
    committed(tree)
    return tree


def test_the_patches_applied_to_the_tree_give_what_the_agent_left(tmp_path: Path) -> None:
    tree = tree_of(tmp_path)
    job = job_of(tmp_path, CHANGES, keep_workspace="all", acceptance={"": "true"})
    ran = attempt(job)
    assert ran.facts["patch"] == {"complete": True, "left_out": [], "left_out_files": 0}
    made = applied(ran, tree, tmp_path / "applied")
    expected = content(ran.folder / "workspace")
    # The workspace is kept without rights.
    assert {name: text.removeprefix(b"0o100").removeprefix(b"0o0") for name, text in made.items()} \
        == {name: text.removeprefix(b"0o0") for name, text in expected.items()}  # fmt: skip
    assert (made["plain"][:5], made["program"][:3]) == (b"0o100", b"0o0")
    shown, hidden = ran.kept("diff.patch"), ran.kept("ignored.patch")
    assert "other.o" not in shown
    assert "b/build/" not in shown
    assert "b/other.o" in hidden
    assert "b/build/out.o" in hidden
    assert "diff --git a/README.md b/README.md\n" in shown
    assert (ran.folder / "ignored.patch").stat().st_mode & 0o777 == 0o600


def test_what_set_up_made_is_what_the_agent_started_from(tmp_path: Path) -> None:
    tree_of(tmp_path)
    setup = ("echo by setup > made; echo by setup > README.md; echo o > build/new.o; rm gone",)
    script = "echo by the agent >> made; echo by the agent >> README.md; touch answer.txt"
    shown = attempt(job_of(tmp_path, script, setup=setup)).kept("diff.patch")
    assert "+by the agent" in shown
    assert "-by setup" not in shown
    assert "+by setup" not in shown
    assert "gone" not in shown
    assert "new.o" not in shown


def test_no_change_is_no_patch_and_no_git(tmp_path: Path) -> None:
    tree_of(tmp_path)
    path = tmp_path / "bin"
    path.mkdir()
    (path / "git").write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\n")
    (path / "git").chmod(0o755)
    env = {"PATH": f"{path}:{os.environ['PATH']}", "LANG": "C.UTF-8"}
    kinds = dict.fromkeys(("setup", "agent", "acceptance"), env)
    ran = attempt(job_of(tmp_path, "touch README.md", env=kinds, path=env["PATH"]))
    assert ran.kept("diff.patch") == ""
    assert not (ran.folder / "ignored.patch").exists()
    assert not (tmp_path / "asked").exists()
    attempt(job_of(tmp_path, "echo > README.md", env=kinds, path=env["PATH"]))
    assert (tmp_path / "asked").exists()


def test_a_change_that_keeps_size_and_time_is_seen(tmp_path: Path) -> None:
    tree = tree_of(tmp_path)
    stamp = tree / "README.md"
    script = f"printf 'readme.md\\n' > README.md; touch -r {stamp} README.md"
    assert "+readme.md" in attempt(job_of(tmp_path, script)).kept("diff.patch")


@pytest.mark.parametrize(
    "hide",
    [
        "rm -rf .git",
        "git commit -qam mine",
        "git add -A; git -c user.name=a -c user.email=a@b commit -qm mine; git gc -q",
        "mkdir nested; cp -a .git nested/; rm -rf .git; mv nested/.git nested/.hidden",
        "git init -q nested; echo deep > nested/deep; mv README.md nested/",
        "git init -q nested; cd nested; echo deep > deep; git add -A; "
        "git -c user.name=a -c user.email=a@b commit -qm x; cd ..",
        "rm -rf .git; git init -q ..; echo '*' > .gitignore; rm .gitignore",
        "rm -rf .git; echo 'gitdir: /nowhere' > .git",
        "rm -rf .git; ln -s /nowhere .git",
        "rm -rf .git; mkfifo .git",
        "printf 'README.md filter=x working-tree-encoding=UTF-16 -diff\\n' > .gitattributes",
        "mkfifo .gitignore .gitattributes",
        "ln -s /dev/zero .gitignore; ln -s /dev/zero .gitattributes",
        "git update-index --assume-unchanged README.md; git update-index --skip-worktree README.md",
        "echo README.md > .git/info/exclude; git config core.worktree /nowhere",
    ],
)
def test_whatever_an_agent_does_to_git_its_change_is_in_the_diff(tmp_path: Path, hide: str) -> None:
    tree_of(tmp_path)
    change = "echo by the agent > README.md; echo new > fresh.txt"
    ran = attempt(job_of(tmp_path, f"{change}; {hide}; touch answer.txt"))
    shown = ran.kept("diff.patch")
    assert "+new" in shown
    assert "+by the agent" in shown or "nested/README.md" in shown
    assert "/.git/" not in shown
    left = {one["why"] for one in ran.facts["patch"]["left_out"]}
    assert ran.facts["patch"]["complete"] or left == {"neither a file nor a link"}


def test_what_git_ignores_is_kept_apart_and_keys_are_kept_nowhere(tmp_path: Path) -> None:
    tree_of(tmp_path)
    script = """
printf '.env\\nid_rsa\\n*.pem\\ncache/\\n' > .gitignore; mkdir cache; echo cached > cache/x
echo KEY=1 > .env; echo key > id_rsa; echo key > a.pem; echo A= > .env.example
echo KEY=2 > .env.local; echo 'a pattern?' > ':(attr:a)x'
"""
    ran = attempt(job_of(tmp_path, script))
    both = ran.kept("diff.patch") + ran.kept("ignored.patch")
    assert "cached" in ran.kept("ignored.patch")
    assert "cached" not in ran.kept("diff.patch")
    assert "KEY=" not in both
    assert "+key" not in both
    assert "+A=" in ran.kept("diff.patch")
    assert "+a pattern?" in ran.kept("diff.patch")
    assert {(one["path"], one["why"]) for one in ran.facts["patch"]["left_out"]} == {
        (name, "may hold keys, by its name") for name in (".env", ".env.local", "a.pem", "id_rsa")
    }
    assert ran.facts["patch"]["complete"] is False


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (".env", True),
        ("a/.ENV.production", True),
        (".env.example", False),
        ("id_ed25519", True),
        ("id_rsa.pub", False),
        ("server.key", True),
        ("keys.py", False),
        ("environment.md", False),
    ],
)
def test_files_that_hold_keys_are_known_by_their_names(name: str, expected: bool) -> None:
    assert may_hold_keys(name) is expected


def test_what_is_too_large_is_named_and_the_rest_is_kept(tmp_path: Path) -> None:
    tree_of(tmp_path)
    script = "head -c 3000000 /dev/zero > large; truncate -s 1T huge; mkfifo pipe; echo s > small"
    ran = attempt(job_of(tmp_path, script))
    assert "+s" in ran.kept("diff.patch")
    told = {one["path"]: one["why"] for one in ran.facts["patch"]["left_out"]}
    assert told["large"] == "too large: 3,000,000 bytes; see limits.patch_mb"
    assert told["huge"].startswith("too large: 1,099,511,627,776 bytes")
    assert told["pipe"] == "neither a file nor a link"
    assert ran.facts["patch"]["complete"] is False


def test_a_tree_without_end_is_no_trouble_and_is_told(tmp_path: Path) -> None:
    tree_of(tmp_path)
    script = "p=$(printf 'd/%.0s' $(seq 150)); mkdir -p $p; echo x > ${p}x; echo s > small"
    ran = attempt(job_of(tmp_path, script))
    assert "+s" in ran.kept("diff.patch")
    (left,) = ran.facts["patch"]["left_out"]
    assert left["why"] == "too many folders deep"


def test_a_binary_file_with_a_secret_is_left_out_and_named(tmp_path: Path) -> None:
    tree_of(tmp_path)
    secrets = {"TOKEN": "a secret of some length"}
    script = 'printf "\\0%s" "$TOKEN" > packed; printf "%s\\n" "$TOKEN" > plain.txt'
    job = job_of(tmp_path, script)
    env = {**job.env, "agent": {**job.env["agent"], **secrets}}
    ran = attempt(job_of(tmp_path, script, secrets=secrets, env=env))
    assert "+[secret TOKEN]" in ran.kept("diff.patch")
    assert "packed" not in ran.kept("diff.patch")
    assert ran.facts["patch"]["left_out"] == [
        {"path": "packed", "why": "a binary file that holds a secret"}
    ]


def test_a_text_with_a_secret_in_the_place_of_a_binary_file_is_left_out(tmp_path: Path) -> None:
    tree_of(tmp_path)
    secrets = {"TOKEN": "a secret of some length"}
    script = 'printf "%s\\n" "$TOKEN" > binary; mkfifo "$TOKEN"'
    job = job_of(tmp_path, script)
    env = {**job.env, "agent": {**job.env["agent"], **secrets}}
    ran = attempt(job_of(tmp_path, script, secrets=secrets, env=env))
    assert ran.kept("diff.patch") == ""
    assert {(one["path"], one["why"]) for one in ran.facts["patch"]["left_out"]} == {
        ("binary", "a binary file that holds a secret"),
        ("[secret TOKEN]", "neither a file nor a link"),
    }


def test_a_path_that_is_too_long_for_git_is_named_and_the_rest_is_kept(tmp_path: Path) -> None:
    tree_of(tmp_path)
    made = "for i in range(20): os.mkdir('d' * 250); os.chdir('d' * 250)"
    code = f"import os\n{made}\nopen('deep', 'w').write('x')"
    ran = attempt(job_of(tmp_path, f'echo s > small; {sys.executable} -c "{code}"'))
    assert "+s" in ran.kept("diff.patch")
    (left,) = ran.facts["patch"]["left_out"]
    assert left["why"] == "its path is too long for git"


def test_a_folder_that_cannot_be_read_is_named_and_the_rest_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "closed").mkdir()
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "file").touch()
    whole = OpenFolder.within

    def within(self: OpenFolder, path: str, **how: bool) -> OpenFolder:
        # Root may read everything.
        if path == "closed":
            raise PermissionError(13, "Permission denied")
        return whole(self, path, **how)

    monkeypatch.setattr(OpenFolder, "within", within)
    with OpenFolder(str(tmp_path)) as folder:
        found = {path: kind_of(what) for _, _, what, path in walk(folder, history=False)}
    assert found == {"closed": OTHER, "open/file": FILE}


def test_a_walk_has_a_limit_where_one_is_given(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / str(number)).touch()
    with OpenFolder(str(tmp_path)) as folder:
        assert len(list(walk(folder, history=False))) == 5
        with pytest.raises(OSError, match="more than 4 files and folders"):
            list(walk(folder, history=False, most=4))


def test_nothing_of_a_history_is_part_of_a_tree(tmp_path: Path) -> None:
    for path in (".git/config", "sub/.git", "sub/deep/.git/objects/x", "sub/kept"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    with OpenFolder(str(tmp_path)) as folder:
        assert [path for *_, path in walk(folder, history=False)] == ["sub/kept"]
        assert len([path for *_, path in walk(folder, history=True)]) == 4
