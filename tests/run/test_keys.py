"""A key that the provider refuses stops the run at once; later refusals are infra as ever."""

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Result, twoarm
from tests.programs.test_launch import agent_of, start
from tests.support.loop_in_memory import Simulation, terms
from tests.support.run_folders import QUICK, records, run, runs
from tests.support.suite_files import SOLVE, suite_of
from twoarm.programs.agent import Watch
from twoarm.programs.format import Refusal
from twoarm.run.attempted import Attempted
from twoarm.run.loop import StoppedError

pytestmark = pytest.mark.usefixtures("cache")

FREE = terms(budget_usd=None)


class Provider:
    """Refuses some attempts, with one status, and answers the others."""

    def __init__(self, status: int, refuses: Callable[[Attempted], bool]) -> None:
        self.status = status
        self.refuses = refuses
        self.begun = 0

    def fate(self, attempted: Attempted, rng: random.Random) -> tuple[str, float | None, float]:
        self.begun += 1
        return ("infra" if self.refuses(attempted) else "run"), 0.1, 1.0

    def facts(self, attempted: Attempted) -> dict[str, Any]:
        return {"refused": self.status} if self.refuses(attempted) else {"answered": True}

    def runs(self, slots: int = 1) -> Simulation:
        return Simulation(FREE, self.fate, facts=self.facts, slots=slots, tasks=4, repeats=2)


@pytest.mark.parametrize("status", [401, 403])
def test_a_key_that_never_worked_stops_the_run_at_its_first_trial(status: int) -> None:
    provider = Provider(status, lambda attempted: True)
    with pytest.raises(StoppedError, match=f"refuses the agent with status {status}: infra"):
        provider.runs()
    assert provider.begun == 1


def test_a_key_of_one_arm_that_never_worked_stops_the_run_too() -> None:
    provider = Provider(401, lambda attempted: attempted.arm == "a")
    with pytest.raises(StoppedError, match="with status 401"):
        provider.runs()
    assert provider.begun <= 3


def test_a_403_after_any_answer_is_an_infra_failure_like_another() -> None:
    """Quotas and proxies say it, too, and it may be the other arm that meets it."""
    first: list[str] = []

    def refuses(attempted: Attempted) -> bool:
        first.append(attempted.arm)
        return attempted.arm != first[0] and attempted.attempt == 1

    provider = Provider(403, refuses)
    done = provider.runs()
    assert done.end == "done"
    assert len([one for one in done.folder.settled if one.state == "infra"]) == 8


def test_a_401_after_an_answer_to_its_arm_is_one_as_well() -> None:
    seen: set[str] = set()

    def refuses(attempted: Attempted) -> bool:
        first = attempted.arm not in seen
        seen.add(attempted.arm)
        return not first and attempted.task == "t1" and attempted.attempt == 1

    fates: dict[str, bool] = {}
    provider = Provider(401, lambda one: fates.setdefault(one.id, refuses(one)))
    done = provider.runs()
    assert done.end == "done"
    assert any(fates.values())


@pytest.mark.parametrize("status", [400, 429, 500, 503])
def test_other_refusals_wait(status: int) -> None:
    with pytest.raises(StoppedError, match="6 attempts in a row"):
        Provider(status, lambda attempted: True).runs()


# Claude Code asks again for minutes --------------------------------------------------------------

CLAUDE = """\
#!/bin/sh
case " $* " in *" --version "*) echo 2.1.325; exit;; esac
echo '{"type":"system","subtype":"init","session_id":"s","model":"m"}'
echo '{"type":"system","subtype":"api_retry","error_status":STATUS,"error":"WORDS"}'
sleep SECONDS
echo '{"type":"result","subtype":"success","is_error":true,"api_error_status":STATUS,"result":"no"}'
exit 1
"""


def claude(
    folder: Path, monkeypatch: pytest.MonkeyPatch, status: int, seconds: int, **suite: Any
) -> Result:
    program = folder / "bin" / "claude"
    program.parent.mkdir(parents=True)
    words = CLAUDE.replace("STATUS", str(status)).replace("SECONDS", str(seconds))
    program.write_text(words.replace("WORDS", "authentication_failed"))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    path = suite_of(folder, agent={"program": "claude-code", "argv": None}, **suite)
    return run(path, folder / "out", "--jobs", "2")


def test_a_refusal_is_seen_while_it_runs_unless_the_model_has_answered(tmp_path: Path) -> None:
    given = start(tmp_path)
    meter = agent_of("claude-code").meter(given, None)
    assert isinstance(meter, Watch)
    assert meter.refused() is None
    Path(given.output).mkdir(exist_ok=True)
    stream = Path(given.output) / "stream.jsonl"
    retry = '{"type":"system","subtype":"api_retry","error_status":401,"error":"no"}\n'
    stream.write_text(f'noise\n{{"type":"system","subtype":"init"}}\n{retry[:-9]}')
    assert meter.refused() is None
    with stream.open("a") as file:
        file.write(retry[-9:])
    assert meter.refused() == Refusal(message="no (401)", status=401)
    assert meter.refused() == Refusal(message="no (401)", status=401)
    with stream.open("a") as file:
        file.write(f'{{"type":"assistant","message":{{}}}}\n{retry}')
    assert meter.refused() is None


def test_a_run_does_not_wait_for_an_agent_that_asks_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {"timeout_seconds": 300, "budget_usd": 4.0, "trial_usd": 1.0}
    result = claude(tmp_path, monkeypatch, 401, 300, limits=limits)
    assert result.code == 2
    assert (
        "twoarm: the provider refuses the agent with status 401: authentication_failed (401); "
        "check the key and what it may use\n"
    ) in result.err
    assert f"nothing is lost; continue with twoarm run --resume {tmp_path}/out" in result.err
    out = tmp_path / "out"
    found = [one for one in records(out) if one["failure"] == "infra"]
    assert {one["failure_reason"] for one in found} == {"authentication_failed (401)"}
    assert 1 <= len(found) <= 2
    # A refused attempt costs nothing, so that the budget is there for the right key.
    assert json.loads((out / "receipt.json").read_text())["spent_usd"] == 0.0
    assert runs(out) == []


@pytest.mark.parametrize("status", [401, 403])
def test_at_the_end_of_a_trial_it_stops_with_the_words_of_the_provider(
    status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = claude(tmp_path, monkeypatch, status, 0)
    assert result.code == 2
    assert f"the provider refuses the agent with status {status}: " in result.err
    assert len(list((tmp_path / "out").glob(".attempts/*/*/trial.json"))) <= 2


def test_a_429_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = claude(tmp_path, monkeypatch, 429, 0)
    assert " attempts in a row failed for reasons that are not the agent's" in result.err


def test_a_key_that_was_mended_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was answered in an earlier session says nothing of the key of this one."""
    limits = {"budget_usd": 4.0, "trial_usd": 1.0}
    assert claude(tmp_path, monkeypatch, 401, 0, limits=limits).code == 2
    program = tmp_path / "bin" / "claude"
    bad = program.read_text()
    good = '{"type":"result","subtype":"success","is_error":false,"total_cost_usd":0.5}'
    first = "\n".join(bad.splitlines()[:3])
    program.write_text(f"{first}\n{SOLVE}\necho '{good}'\n")
    again = ("run", "--resume", str(tmp_path / "out"), *QUICK)
    assert twoarm(*again).code == 0
    assert len(runs(tmp_path / "out")) == 4
    program.write_text(bad)
    (tmp_path / "out" / "runs" / "with" / "one.1").rename(tmp_path / "aside")
    result = twoarm(*again)
    assert (result.code, "with status 401" in result.err) == (2, True)
