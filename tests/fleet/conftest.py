"""One cluster for the tests of a file: a head and two nodes with two slots each."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clusters import TestCluster, a_cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[TestCluster]":
    with a_cluster(tmp_path_factory.mktemp("cluster")) as made:
        made.add("n1", "n2", cpus=2)
        yield made


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"
