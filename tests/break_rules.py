"""Break every rule once, on purpose, and see a test go red.

    make broken                             all of them, about ten minutes
    make broken ONLY=tests/compare/test_rules.py    those that one file of tests should notice

Each entry of tests/broken is a rule, the file it lives in, the code that keeps it, code that breaks
it, and the tests to run. An entry whose code is no longer there, or that no test notices, fails.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.broken import BROKEN, Broken

ROOT = Path(__file__).parent.parent
PATIENCE_SECONDS = 120


def survives(entry: Broken) -> str | None:
    """What is wrong with the entry, if the tests do not notice it."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
        file = copy / "twoarm" / entry.file
        text = file.read_text(encoding="utf-8")
        if entry.kept not in text:
            return f"{entry.rule}: {entry.file} no longer has: {entry.kept}"
        file.write_text(text.replace(entry.kept, entry.broken), encoding="utf-8")
        try:
            code = subprocess.run(
                [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", entry.tests],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
                capture_output=True,
                check=False,
                timeout=PATIENCE_SECONDS,
            ).returncode
        except subprocess.TimeoutExpired:
            # Tests that never end have noticed, too.
            return None
        return None if code == 1 else f"{entry.rule}: broken, and no test noticed"


def main() -> int:
    chosen = [entry for entry in BROKEN if not sys.argv[1:] or entry.tests in sys.argv[1:]]
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        unnoticed = [found for found in workers.map(survives, chosen) if found]
    sys.stdout.write("".join(f"{line}\n" for line in unnoticed))
    sys.stdout.write(f"{len(chosen) - len(unnoticed)} of {len(chosen)} broken rules noticed\n")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
