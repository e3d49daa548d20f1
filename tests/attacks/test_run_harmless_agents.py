"""Traps of an agent for its supervisor: links, pipes and mounts lead to no file of the user.

An agent in a copy may write wherever the user may. That is its own doing; here it lays traps, and
whoever cleans up after it must not walk into one.
"""

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.canaries import pipe
from tests.support.run_folders import QUICK, records, unaccounted
from tests.support.suite_files import SOLVE, wait_for
from tests.support.yard import Yard

TRUE = [{"id": "one", "prompt": "p", "acceptance_command": "true"}]
SAID = Path(__file__).parent.parent / "fixtures" / "collect"


def trap(yard: Yard) -> Path:
    """A folder of the user with everything in it that a supervisor might look for."""
    folder = yard.user / "trap"
    for name in ("work", "home", "home2", "tmp", "out", "git", "secrets", "box", "own", "t",
                 "trees", "builds", "start", "common", "tree0", "tree1", "1", "source1",
                 "setup", "runs", ".attempts", "box/work", "box/home", "box/tmp", "own/out",
                 "own/git", "own/home", "home/tmp", "home2/tmp", "tests", ".git"):  # fmt: skip
        (folder / name).mkdir(parents=True)
        (folder / name / "precious.txt").write_text("mine\n")
    for name in ("usage.json", "prompt.txt", "outcome", "stdout.txt", "stderr.log", "diff.patch",
                 "prepared.json", "git.log", "copy.log", "acceptance.log", "index"):  # fmt: skip
        for at in (".", "tmp", "out", "own/out", "box/tmp"):
            (folder / at / name).write_text("mine\n")
    sessions = folder / ".codex" / "sessions"
    sessions.mkdir(parents=True)
    shutil.copy(SAID / "codex" / "ok" / "rollout.jsonl", sessions / "rollout-real.jsonl")
    return folder


def ends(yard: Yard, script: str, *more: str, **changed: Any) -> None:
    """The run ends, every trial is accounted for, and the user's files are as they were."""
    yard.app()
    result = yard.run(yard.suite(script, **changed), *more)
    assert result.code in (0, 2, 3), result.err
    assert "Traceback" not in result.err
    assert unaccounted(yard.out) == [], result.err


def counts(yard: Yard) -> None:
    """Every trial has ended as a run: nothing that an agent can bring about is anything else."""
    found = [(record["arm"], record["failure"]) for record in records(yard.out)]
    assert sorted(arm for arm, failure in found if failure in (None, "agent")) == [
        "with",
        "without",
    ], found


# Its own folders, replaced.

OWN = {
    "HOME": "$HOME",
    "TMPDIR": "$TMPDIR",
    "workspace": "$work",
    "out": "$work/../out",
    "home2": "$work/../home2",
}
PUT = {
    "a link to a folder": "ln -s '{trap}'",
    "a link to a file": "ln -s '{trap}/usage.json'",
    "a pipe": "mkfifo",
    "a file": "touch",
    "nothing": ":",
}


@pytest.mark.parametrize("put", PUT)
@pytest.mark.parametrize("where", OWN)
def test_a_folder_of_the_attempt_may_be_anything_by_its_end(
    yard: Yard, where: str, put: str
) -> None:
    made = PUT[put].format(trap=trap(yard))
    place = OWN[where]
    ends(yard, f'{SOLVE}; work=$PWD; cd /; rm -rf "{place}"; {made} "{place}"; true')
    counts(yard)


@pytest.mark.parametrize("levels", [1, 2, 3, 4])
def test_a_folder_above_the_attempt_may_be_a_link_by_its_end(yard: Yard, levels: int) -> None:
    above = "/".join([".."] * levels)
    script = f"""
at=$(cd {above}; pwd)
case $at in '{yard.cache}'/*) ;; *) exit 1 ;; esac
cd /; mv "$at" "$at.old"; ln -s '{trap(yard)}' "$at"
"""
    ends(yard, script)


@pytest.mark.parametrize("name", ["trees", "builds", "t", "prepared.json", ""])
@pytest.mark.parametrize("put", ["link", "dangling", "pipe", "file"])
def test_a_resume_walks_into_no_trap_in_the_cache(yard: Yard, name: str, put: str) -> None:
    yard.app()
    process = yard.running(yard.suite())
    process.send_signal(signal.SIGKILL)
    yard.ended(process, "a run that is killed")
    wait_for(lambda: not yard.left())
    yard.gate.touch()
    (place,) = yard.cache.iterdir()
    at = place / name
    if at.exists():
        at.rename(yard.signs / "aside")
    if put == "link":
        at.symlink_to(trap(yard))
    elif put == "dangling":
        at.symlink_to(yard.user / "nowhere")
    elif put == "pipe":
        pipe(at)
    else:
        at.touch()
    result = yard.resume()
    assert result.code in (0, 2), result.err
    assert "Traceback" not in result.err


def test_a_tree_that_an_agent_made_a_link_leads_nobody_out(yard: Yard) -> None:
    # For the next trial, and for whoever clears the cache.
    folder = trap(yard)
    script = f"""
for tree in '{yard.cache}'/*/trees/* '{yard.cache}'/*/builds/*; do
    [ -d "$tree" ] && mv "$tree" "$tree.old" && ln -s '{folder}' "$tree"
done
{SOLVE}
"""
    ends(yard, script, "--jobs", "1")


# What is kept of HOME, and the counts.

CODEX = f"""
sed "s/529ef82a3137/$$/" '{SAID}/codex/ok/events.jsonl'
rm -rf "$HOME/.codex"
{{planted}}
echo fixed > answer.txt
"""
PLANTED = {
    "linked sessions": 'mkdir "$HOME/.codex"; '
    'ln -s "$REAL/.codex/sessions" "$HOME/.codex/sessions"',
    "a linked folder of sessions": 'mkdir -p "$HOME/.codex/sessions"; '
    'ln -s "$REAL/.codex/sessions/2026" "$HOME/.codex/sessions/2026"',
    "a linked .codex": 'ln -s "$REAL/.codex" "$HOME/.codex"',
    "a linked home": 'rm -rf "$HOME"; ln -s "$REAL" "$HOME"',
    "a linked rollout": 'mkdir -p "$HOME/.codex/sessions"; ln -s '
    '"$REAL/.codex/sessions/2026/rollout-real.jsonl" "$HOME/.codex/sessions/rollout-a.jsonl"',
    "a dangling rollout": 'mkdir -p "$HOME/.codex/sessions"; '
    'ln -s nowhere "$HOME/.codex/sessions/rollout-a.jsonl"',
    "a hard link": 'mkdir -p "$HOME/.codex/sessions"; '
    'ln "$REAL/.codex/sessions/2026/rollout-real.jsonl" "$HOME/.codex/sessions/rollout-a.jsonl"',
    "a folder": 'mkdir -p "$HOME/.codex/sessions/rollout-a.jsonl/x"',
    "a pipe": 'mkdir -p "$HOME/.codex/sessions"; mkfifo "$HOME/.codex/sessions/rollout-a.jsonl"',
    "sessions in a loop": 'mkdir -p "$HOME/.codex/sessions"; '
    'ln -s .. "$HOME/.codex/sessions/up"; ln -s . "$HOME/.codex/sessions/here"',
}


@pytest.mark.parametrize("planted", PLANTED)
def test_rollouts_of_codex_below_links_are_left_where_they_are(yard: Yard, planted: str) -> None:
    yard.stand_in("codex", "codex-cli 0.166.0", CODEX.format(planted=PLANTED[planted]))
    agent = {"program": "codex", "argv": None, "env": {"REAL": str(yard.user)}}
    ends(yard, "", agent=agent, tasks=TRUE)
    counts(yard)


OPENCODE = f"""
[ "$1" = export ] && exit 1
sed "s/Whwp0Vv/$$/" '{SAID}/opencode/ok/events.jsonl'
mkdir -p "$HOME/.local/share/opencode"
cd "$HOME/.local/share/opencode"
rm -rf log
{{planted}}
"""


@pytest.mark.parametrize(
    "planted",
    [
        'ln -s "$REAL/.local/share/opencode/log" log',
        'mkdir log; ln "$REAL/.local/share/opencode/log/real.log" log/a.log',
        'mkdir log; ln -s "$REAL/.local/share/opencode/log/real.log" log/a.log',
        "mkdir -p log/a.log/x",
        "mkdir log; mkfifo log/a.log; mkfifo opencode.db",
        'ln -s "$REAL/docs/hard.txt" opencode.db; ln -s nowhere log',
    ],
)
def test_logs_of_opencode_below_links_are_left_where_they_are(yard: Yard, planted: str) -> None:
    yard.stand_in("opencode", "1.18.33", OPENCODE.format(planted=planted))
    agent = {"program": "opencode", "argv": None, "env": {"REAL": str(yard.user)}}
    ends(yard, "", agent=agent, tasks=TRUE, limits={"trial_usd": 5.0, "budget_usd": 50.0})
    counts(yard)


@pytest.mark.parametrize(
    "put",
    [
        "ln -s '{user}/usage.json'",
        "ln -s nowhere",
        "ln '{user}/usage.json'",
        "mkfifo",
        "mkdir",
        "mkdir -p /dev/null/x 2>&1; ln -s .",
    ],
)
def test_the_usage_file_may_be_anything(yard: Yard, put: str) -> None:
    ends(yard, f'{put.format(user=yard.user)} "$TWOARM_USAGE"; {SOLVE}')
    counts(yard)


def test_a_usage_file_through_a_linked_folder_stays_where_it_is(yard: Yard) -> None:
    ends(yard, f'rm -rf "$TMPDIR"; ln -s \'{yard.user}\' "$TMPDIR"; {SOLVE}')
    counts(yard)


# Hard links: another name of the user's own file.


def test_a_hard_link_in_the_workspace_is_replaced_and_not_written(yard: Yard) -> None:
    real = yard.user / "docs" / "hard.txt"
    script = f"ln -f '{real}' README.md; ln '{real}' new.txt; {SOLVE}"
    tasks = [TRUE[0] | {"acceptance_files": ["README.md"]}]
    ends(yard, script, "--keep", "all", tasks=tasks)
    counts(yard)
    assert real.stat().st_nlink == 2


def test_a_hard_link_in_the_place_of_a_log_is_not_written(yard: Yard) -> None:
    # Of the supervisor's own; in a copy nothing keeps an agent from them.
    real = yard.user / "docs" / "hard.txt"
    script = f"""
find .. ../.. -maxdepth 3 -type f '(' -name '*.log' -o -name '*.txt' -o -name '*.patch' ')' \\
    -not -path '*/box/*' > "$TMPDIR/found"
while read -r found; do ln -f '{real}' "$found"; done < "$TMPDIR/found"
for folder in ../out ../../own ../../own/out; do
    [ -d $folder ] || continue
    for name in diff.patch acceptance.log git.log copy.log base index usage.json; do
        ln -f '{real}' $folder/$name
    done
done
{SOLVE}
"""
    ends(yard, script)


def test_links_in_a_workspace_that_is_kept_stay_links(yard: Yard) -> None:
    script = f"ln -s '{yard.user}/docs' docs; mkdir -p a/b; ln -s ../../../.. a/b/up; {SOLVE}"
    ends(yard, script, "--keep", "all")
    counts(yard)
    assert os.readlink(yard.kept("with", "workspace") / "docs") == str(yard.user / "docs")


# Mounts, where this user can make some.

MOUNTS = {
    "in the workspace": "mkdir m; mount --bind '{docs}' m",
    "in HOME": 'mkdir "$HOME/m"; mount --bind \'{docs}\' "$HOME/m"',
    "in TMPDIR": 'mkdir "$TMPDIR/m"; mount --bind \'{docs}\' "$TMPDIR/m"',
    "over the workspace": "work=$PWD; cd /; mount --bind '{docs}' \"$work\"",
    "over HOME": "mount --bind '{docs}' \"$HOME\"",
    "over TMPDIR": "mount --bind '{docs}' \"$TMPDIR\"",
    "over a folder of tests": "mkdir -p tests; mount --bind '{docs}' tests",
}


@pytest.mark.parametrize("where", MOUNTS)
def test_nothing_is_deleted_beyond_a_mount_point(yard: Yard, where: str) -> None:
    under = ("unshare", "-m") if os.getuid() == 0 else ("unshare", "-rm")
    (yard.signs / "mount").mkdir()
    tried = ["mount", "--bind", str(yard.signs), str(yard.signs / "mount")]
    if subprocess.run([*under, *tried], capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted here")
    docs = yard.user / "docs"
    (yard.app() / "tests").mkdir()
    (yard.app() / "tests" / "letter.txt").write_text("test\n")
    (yard.app() / "hard.txt").write_text("test\n")
    tasks = [TRUE[0] | {"acceptance_files": ["tests/letter.txt", "hard.txt"]}]
    suite = yard.suite(f"{SOLVE}\n{MOUNTS[where].format(docs=docs)}\n", tasks=tasks)
    with yard.untouched(where):
        # It ends with the mounts that its agents have made.
        words = ("run", suite, "--out", yard.out, "--repeats", "1", *QUICK)
        result = yard.ended(yard.start(*words, under=under), where)
    assert result.code in (0, 2, 3), result.err
    assert unaccounted(yard.out) == [], result.err
