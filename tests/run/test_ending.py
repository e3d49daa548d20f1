"""How a run ends: where the results are, what shows one of them, and what is known of the cost."""

import re
import shlex
from pathlib import Path

import pytest

from tests.conftest import twoarm
from tests.support.run_folders import USAGE
from tests.support.suite_files import SOLVE, suite_of

pytestmark = pytest.mark.usefixtures("cache")


def test_the_demo_ends_with_where_its_results_are_and_a_command_that_works() -> None:
    result = twoarm("run", "--demo", "--repeats", "1", "--no-evidence")
    assert result.code == 0, result.err
    page, command, _ = result.err.splitlines()[-3:]
    path = re.fullmatch(r"twoarm: the report is (\S+/report\.html)", page)
    assert path is not None, page
    assert Path(path[1]).exists()
    words = re.fullmatch(r"twoarm: see one run with (twoarm show .*)", command)
    assert words is not None, command
    shown = twoarm(*shlex.split(words[1])[1:])
    assert shown.code == 0, shown.err
    assert "WHAT IT DID" in shown.out


def test_a_page_that_was_not_written_is_not_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from twoarm.errors import ExtraError
    from twoarm.render.report import Report

    def without_charts(self: Report, links: object) -> str:
        raise ExtraError("not installed")

    monkeypatch.setattr("twoarm.render.report.Report.to_html", without_charts)
    out = tmp_path / "the results"
    result = twoarm("run", str(suite_of(tmp_path)), "--out", str(out), "--repeats", "1",
                    "--no-evidence")  # fmt: skip
    assert "report is" not in result.err
    last = result.err.splitlines()[-1]
    assert last.startswith(f"twoarm: see one run with twoarm show '{out}' ")


@pytest.mark.parametrize(
    ("script", "said"),
    [(SOLVE, "cost not known"), (f"{USAGE}used 9 0.25; {SOLVE}", "$1.00 spent")],
)
def test_a_run_says_the_same_of_its_cost_everywhere(tmp_path: Path, script: str, said: str) -> None:
    out = tmp_path / "out"
    result = twoarm("run", str(suite_of(tmp_path, script)), "--out", str(out), "--repeats", "1",
                    "--no-evidence", "--jobs", "1", "--display", "lines")  # fmt: skip
    assert "0 of 4 trials done, 1 running\n" in result.err
    assert f"4 of 4 trials done, {said}\n" in result.err
    assert "$0.00" not in result.err
    status = twoarm("run", "--status", str(out)).out
    arms = "`with` 2 of 2, `without` 2 of 2"
    assert f"4 of 4 trials done ({arms}), 0 running, 0 infra, {said}\n" in status
