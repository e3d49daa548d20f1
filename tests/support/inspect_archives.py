"""Logs of Inspect, taken apart and packed by hand."""

from pathlib import Path

from tests.support.collect_fixtures import FIXTURES
from twoarm.files.zstd import zipfile as zstd_zipfile


def archive(
    path: Path, members: dict[str, bytes], method: int = zstd_zipfile.ZIP_ZSTANDARD
) -> None:
    with zstd_zipfile.ZipFile(path, "w", method) as made:
        for name, text in members.items():
            made.writestr(name, text)


def members(path: Path) -> dict[str, bytes]:
    with zstd_zipfile.ZipFile(path) as found:
        return {name: found.read(name) for name in found.namelist()}


EVAL = FIXTURES / "inspect" / "eval" / "baseline.eval"
