"""What an agent changed is put back from its patches: exactly that, or a reason why not."""

from pathlib import Path

import pytest

from tests.run.test_patch import CHANGES, tree_of
from tests.support.suite_files import Ran, attempt, committed, job_of

# All that a patch can hold: names, kinds, where links lead, permissions, contents.
LISTING = (
    "find . -name .git -prune -o ! -type d -printf '%p %y %m %l\\n' | sort; "
    "find . -name .git -prune -o -type f -print0 | sort -z | xargs -0 sha256sum"
)


def put_back(folder: Path, ran: Ran, **changed: object) -> Ran:
    patches = [ran.folder / name for name in ("diff.patch", "ignored.patch")]
    there = tuple(str(path) for path in patches if path.exists())
    return attempt(job_of(folder, "", **{"argv": (), "patches": there} | changed))


def test_what_was_put_back_is_what_the_agent_left(tmp_path: Path) -> None:
    tree_of(tmp_path)
    ran = attempt(job_of(tmp_path, CHANGES, acceptance={"": LISTING}))
    assert ran.facts["patch"]["complete"]
    again = put_back(tmp_path, ran, acceptance={"": LISTING})
    assert again.kept("acceptance.log") == ran.kept("acceptance.log")
    assert "linked l" in ran.kept("acceptance.log")
    assert "patch" not in again.facts


def test_an_agent_that_changed_nothing_left_the_tree(tmp_path: Path) -> None:
    ran = attempt(job_of(tmp_path, "true", acceptance={"": LISTING}))
    again = put_back(tmp_path, ran, acceptance={"": LISTING})
    assert again.kept("acceptance.log") == ran.kept("acceptance.log")


def test_settings_in_the_workspace_do_not_change_what_is_put_back(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / ".gitattributes").write_text("*.txt text eol=crlf working-tree-encoding=UTF-16\n")
    (tree / "a.txt").write_bytes(b"one\ntwo\n")
    committed(tree)
    script = "printf 'one\\nmore \\ntwo\\n' > a.txt; printf 'new\\r\\n' > b.txt"
    ran = attempt(job_of(tmp_path, script, acceptance={"": LISTING}))
    again = put_back(tmp_path, ran, acceptance={"": LISTING})
    assert again.kept("acceptance.log") == ran.kept("acceptance.log")


def test_set_up_comes_before_what_is_put_back(tmp_path: Path) -> None:
    setup = ("echo built > made.txt",)
    ran = attempt(job_of(tmp_path, "echo more >> made.txt", setup=setup, acceptance={"": LISTING}))
    again = put_back(tmp_path, ran, setup=setup, acceptance={"": LISTING})
    assert again.kept("acceptance.log") == ran.kept("acceptance.log")


def test_tests_are_restored_after_what_is_put_back(tmp_path: Path) -> None:
    ran = attempt(job_of(tmp_path, "echo exit 0 > tests/check.sh", restore=("tests",)))
    assert ran.facts["acceptance_exit_code"] == 1
    assert put_back(tmp_path, ran, restore=("tests",)).facts["acceptance_exit_code"] == 1
    assert put_back(tmp_path, ran).facts["acceptance_exit_code"] == 0


def test_a_patch_that_does_not_apply_is_told_and_nothing_is_judged(tmp_path: Path) -> None:
    ran = attempt(job_of(tmp_path, "echo more >> README.md"))
    (ran.folder / "diff.patch").write_text("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n")
    facts = put_back(tmp_path, ran).facts
    assert facts["not_put_back"] == "its patch does not apply"
    assert "acceptance_exit_code" not in facts


@pytest.mark.parametrize(("what", "instead"), [("+more", "+less"), ("+left", "+shut")])
def test_a_patch_that_gives_something_else_is_told(tmp_path: Path, what: str, instead: str) -> None:
    ran = attempt(job_of(tmp_path, "echo more >> README.md; echo left > new.txt"))
    patch = ran.kept("diff.patch")
    assert what in patch
    (ran.folder / "diff.patch").write_text(patch.replace(what, instead))
    name = "README.md" if what == "+more" else "new.txt"
    facts = put_back(tmp_path, ran).facts
    assert facts["not_put_back"] == f"its patch does not give {name} as it was left"
    assert "acceptance_exit_code" not in facts


def test_a_patch_without_its_secret_does_not_give_what_was_left(tmp_path: Path) -> None:
    secrets = {"KEY": "sk-1234567890abcdef"}
    ran = attempt(job_of(tmp_path, "echo sk-1234567890abcdef > new.txt", secrets=secrets))
    assert ran.facts["patch"]["complete"]
    facts = put_back(tmp_path, ran).facts
    assert facts["not_put_back"] == "its patch does not give new.txt as it was left"


def test_nothing_is_put_back_through_a_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "linked").symlink_to(outside)
    committed(tree)
    ran = attempt(job_of(tmp_path, "rm linked; mkdir linked; echo x > linked/new.txt"))
    patch = ran.kept("diff.patch")
    # Without the part that takes the link away.
    at = patch.index("diff --git a/linked/new.txt")
    (ran.folder / "diff.patch").write_text(patch[at:])
    assert put_back(tmp_path, ran).facts["not_put_back"] == "its patch does not apply"
    assert not list(outside.iterdir())
