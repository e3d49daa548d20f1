"""How the real Harbor comes to the tests, and what is said where it does not."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.harbor_suites import VERSION, installed

ROOT = Path(__file__).parent.parent.parent
SCRIPT = ROOT / "tools" / "harbor.sh"


def test_the_version_of_the_stand_in_is_the_one_that_was_tried() -> None:
    assert f'harbor="harbor=={VERSION}"' in SCRIPT.read_text()


def test_ci_does_not_do_without(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TWOARM_HARBOR", str(tmp_path))
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="make harbor"):
        installed()
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match="make harbor"):
        installed()


def test_one_line_says_what_was_skipped_and_how_to_have_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-k", "oracle_against_nop", "tests/harbor"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "TWOARM_HARBOR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert [line for line in done.stdout.splitlines() if "tests skipped" in line] == [
        f"1 tests skipped in tests/harbor/test_real.py: no Harbor in {tmp_path}; "
        "to test with the real one, `make harbor` (380 MB)"
    ]


@pytest.mark.parametrize(("env", "code"), [({}, 0), ({"CI": "true"}, 1)])
def test_without_its_python_it_is_said_what_is_skipped(
    tmp_path: Path, env: dict[str, str], code: int
) -> None:
    for name in ("cat", "sh"):
        (tmp_path / name).symlink_to(shutil.which(name) or name)
    env = {"PATH": str(tmp_path), "HOME": str(tmp_path), **env}
    done = subprocess.run(["sh", SCRIPT], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert done.stderr == (
        "no Python 3.12, which Harbor needs: the tests that start the real Harbor are skipped.\n"
    )
