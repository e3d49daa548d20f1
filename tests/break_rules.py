"""Break every rule once, on purpose, and see a test go red.

    make broken                                     all of them
    make broken ONLY=tests/compare/test_rules.py    those that one file of tests should notice
    make broken SHARE=10                            a tenth, another one for every commit

Each entry of tests/broken is a rule, the name of the function that keeps it, the code, code that
breaks it, and the tests to run. An entry whose code is no longer there, or that no test notices,
fails. A rule may be all that keeps a process from being killed or a file from being deleted, so
that each is broken apart (tools/apart.sh): among processes of its own, on files that are thrown
away.
"""

import argparse
import compileall
import hashlib
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.broken import BROKEN, Broken
from tests.broken.places import TWOARM, StaleError

ROOT = Path(__file__).parent.parent
PATIENCE_SECONDS = 120
# Writes a file where nobody else sees it. What else goes wrong, such as a mount, may end with 1.
_NOTICED = 17
_BREAK = f'cat >"$1" || exit; shift; "$@" </dev/null; [ $? != 1 ] || exit {_NOTICED}'
# One test is over before these would be imported.
_UNUSED = ("cacheprovider", "hypothesispytest", "xdist")
_PYTEST = (sys.executable, "-m", "pytest", "-x", *(f"-pno:{name}" for name in _UNUSED))


def survives(entry: Broken) -> str | None:
    """What is wrong with the entry, if the tests do not notice it."""
    try:
        file, text = TWOARM.breaking(entry)
    except StaleError as stale:
        return f"{entry.rule}: {stale}"
    try:
        code = apart("sh", "-c", _BREAK, "sh", str(file), *_PYTEST, entry.tests, text=text)
    except subprocess.TimeoutExpired:
        # Tests that never end have noticed, too.
        return None
    return None if code == _NOTICED else f"{entry.rule}: broken, and no test noticed"


def apart(*command: str, text: str = "") -> int:
    """The exit code of a command that can do no harm, and reads a text."""
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run(
            [ROOT / "tools" / "apart.sh", folder, *command],
            cwd=ROOT,
            input=text.encode(),
            capture_output=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        ).returncode


def share(entries: list[Broken], parts: int, seed: str) -> list[Broken]:
    """About one part of the entries, which the seed chooses."""

    def drawn(entry: Broken) -> int:
        return int.from_bytes(hashlib.sha256(f"{seed} {entry.rule}".encode()).digest())

    return [entry for entry in entries if drawn(entry) % parts == 0]


def chosen(only: list[str], parts: int, seed: str) -> list[Broken]:
    """The entries of some tests, or all of them; a share of those."""
    entries = [
        entry
        for entry in BROKEN
        if not only or entry.tests in only or entry.tests.partition("::")[0] in only
    ]
    if parts == 1:
        return entries
    sys.stdout.write(f"one rule in {parts}; again with: make broken SHARE={parts} SEED={seed}\n")
    return share(entries, parts, seed)


def _compile(files: set[str]) -> None:
    """The program and the tests, once: whatever is compiled apart is thrown away."""
    compileall.compile_dir(ROOT / "src", quiet=1)
    # pytest compiles in a way of its own.
    subprocess.run(
        [*_PYTEST, "--collect-only", *sorted(files)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        check=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="make broken")
    parser.add_argument("only", nargs="*")
    parser.add_argument("--share", type=int, default=1)
    parser.add_argument("--seed", default="")
    wanted = parser.parse_args()
    # What the commit holds, so that the same code is tried in the same way wherever it lands.
    tree = ["git", "rev-parse", "HEAD^{tree}"]
    seed = wanted.seed or subprocess.check_output(tree, cwd=ROOT, text=True).strip()
    if wanted.share < 1:
        parser.error(f"SHARE={wanted.share}: 10 is a tenth, 1 is all of them")
    entries = chosen(wanted.only, wanted.share, seed)
    if not entries:
        parser.error(f"no rule names {' or '.join(wanted.only)}: see tests/broken")
    if apart("true"):
        sys.exit("rules are broken apart from everything else, which takes root and unshare")
    _compile({entry.tests.partition("::")[0] for entry in entries})
    unnoticed = 0
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        for line in filter(None, workers.map(survives, entries)):
            unnoticed += 1
            sys.stdout.write(f"{line}\n")
            # All of them take long; whoever stops them has seen what there was to see.
            sys.stdout.flush()
    sys.stdout.write(f"{len(entries) - unnoticed} of {len(entries)} broken rules noticed\n")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
