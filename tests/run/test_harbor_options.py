"""Options that Harbor does not know: said by the dry run, and by trials that did not begin."""

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import twoarm
from tests.run import test_harbor
from tests.support.harbor_suites import harbor_suite, stand_in
from tests.support.run_folders import records, run

folder = test_harbor.folder


@pytest.mark.parametrize(
    ("changed", "arm"),
    [
        ({"agent": {"args": ["--unknown"]}}, "oracle"),
        ({"arms": {"nop": {"args": ["--unknown=x"]}}}, "nop"),
    ],
)
def test_the_dry_run_asks_harbor_whether_it_knows_its_options(
    folder: Path, changed: dict[str, Any], arm: str
) -> None:
    suite = harbor_suite(folder, **changed)
    dry = twoarm("run", str(suite), "--dry-run")
    assert (dry.code, dry.out) == (2, "")
    told = f"`harbor` does not take the args of arm `{arm}`: No such option: --unknown"
    assert dry.err == f"twoarm: {suite}: {told}\n"


def test_no_trial_is_started_for_that(folder: Path, tmp_path: Path) -> None:
    stand_in(tmp_path / "bin", f"touch {tmp_path}/begun")
    assert twoarm("run", str(harbor_suite(folder)), "--dry-run").code == 0
    assert not (tmp_path / "begun").exists()


def test_trials_that_did_not_begin_say_so_as_well(folder: Path, tmp_path: Path) -> None:
    suite = harbor_suite(folder, agent={"args": ["--unknown"]})
    run(suite, tmp_path / "out", "--only", "one")
    assert {record["failure_reason"] for record in records(tmp_path / "out")} == {
        "harbor did not begin the trial (exit code 2): No such option: --unknown"
    }
