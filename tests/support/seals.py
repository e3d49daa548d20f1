"""What steps run in, for tests of single attempts."""

from pathlib import Path

from tests.support.suite_files import suite_of
from twoarm.run.isolation import ChosenIsolation, sealer_of
from twoarm.run.jobs import Seal
from twoarm.run.suite_file import read_suite


def bubblewrap_seal(folder: Path, tool: str) -> Seal:
    """The sandbox of an agent whose command line names nothing."""
    chosen = ChosenIsolation(name="bwrap", tool=tool)
    return sealer_of(read_suite(str(suite_of(folder / "suite"))), chosen).for_agent("one", "", [])
