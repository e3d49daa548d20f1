"""No Python file is too long to be read in one go."""

from pathlib import Path

ROOT = Path(__file__).parent.parent
MOST_LINES = 450


def test_every_python_file_is_short() -> None:
    folders = ("src", "tests", "benchmarks", "examples")
    files = [
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        # What benchmarks leave behind is not ours.
        if not path.is_relative_to(ROOT / "benchmarks" / "out")
    ]
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in files
    }
    assert {path.split("/")[0] for path in lengths} == set(folders), "every folder was looked into"
    too_long = {path: length for path, length in lengths.items() if length > MOST_LINES}
    assert too_long == {}, "split it by subject"
