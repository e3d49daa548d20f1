"""In a sandbox an agent cannot bring about anything but its own failure."""

from typing import Any

import pytest

from tests.attacks.test_run_changes import EXECUTES, payload
from tests.attacks.test_run_never_lost import COMMANDS, SHORT, failed
from tests.attacks.test_run_signals import CHEAT, HOMES, PYTHON
from tests.support.run_folders import records, unaccounted
from tests.support.suite_files import SOLVE
from tests.support.yard import Yard

# What is said of the layout is said of this one, too.
BOXED = ("--isolation", "bwrap")


pytestmark = pytest.mark.usefixtures("bubblewrap")


def ran(yard: Yard, script: str, **changed: Any) -> None:
    yard.app()
    result = yard.run(yard.suite(script, **changed), *BOXED)
    assert result.code == 0, result.err
    assert unaccounted(yard.out) == []


def test_an_agent_writes_to_its_three_folders_alone(yard: Yard) -> None:
    script = f"""
for at in "$PWD" "$HOME" "$TMPDIR"; do touch "$at/sign" || echo "cannot write to $at"; done
find '{yard.root}' -type d > "$TMPDIR/all" 2> /dev/null
while read -r at; do
    case "$at/" in "$PWD/"*|"$HOME/"*|"$TMPDIR/"*) continue ;; esac
    touch "$at/sign" 2> /dev/null
done < "$TMPDIR/all"
{SOLVE}
"""
    ran(yard, script)
    assert yard.kept("with", "stdout.txt").read_text() == ""
    # In the sandbox some folders may seem to be written to; what is outside is as it was.
    assert list(yard.root.rglob("sign")) == []
    assert [record["success"] for record in records(yard.out)] == [True, True]


SOME = ("leaves a folder for its counts", "leaves a pipe for its counts",
        "leaves folders for the logs", "leaves pipes for the logs", "leaves pipes at home",
        "exits with 86", "kills itself", "kills its supervisor", "stops its supervisor",
        "stops its supervisor and waits", "removes everything",
        "removes what is above")  # fmt: skip


@pytest.mark.parametrize("what", SOME)
def test_an_agent_that_misbehaves_in_a_sandbox_has_failed(yard: Yard, what: str) -> None:
    (yard.app() / "tests").mkdir()
    ran(yard, COMMANDS[what], limits=SHORT)
    failed(yard)


@pytest.mark.parametrize("where", HOMES)
def test_no_agent_in_a_sandbox_chooses_the_home_of_acceptance(yard: Yard, where: str) -> None:
    checks = f"find \"$HOME\"; '{PYTHON}' -c 'raise SystemExit(1)' || bash -lc 'exit 1'"
    tasks = [{"id": "one", "prompt": "p", "acceptance_command": checks}]
    ran(yard, f"{CHEAT}\n{HOMES[where]}\ntrue", tasks=tasks)
    failed(yard)


@pytest.mark.parametrize("way", ["filter.clean", "a gitdir file", "core.fsmonitor"])
def test_nothing_that_an_agent_in_a_sandbox_wrote_is_executed_outside(yard: Yard, way: str) -> None:
    script = EXECUTES[way].format(payload=payload(yard), user=yard.user)
    ran(yard, f"{script}\n{SOLVE}")
    assert not (yard.signs / "executed").exists()
    assert "fixed" in yard.kept("with", "diff.patch").read_text()
