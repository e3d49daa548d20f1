"""What tests of histories share."""

from pathlib import Path

import pytest

from tests.support.history_folder import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)
