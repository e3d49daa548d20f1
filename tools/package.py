"""Builds sdist and wheel twice, checks them, and tries them as a user does, away from the clone.

    python tools/package.py [--release TAG] PYTHON...

The same sources give the same bytes, wherever they lie and whenever they are built. Each Python
gets an environment of its own with the wheel, the first one also with the sdist, and with what
`action/install.sh` makes. With --release, the tag must be that of the version, and no placeholder
may be left. What was built is in dist/.
"""

import argparse
import email
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
# What a new user does first; each must end with exit code 0.
FIRST_STEPS = """
set -eu
twoarm --version
twoarm demo > demo.txt
grep -q PROMOTE demo.txt
twoarm demo --print > example.jsonl
twoarm check example.jsonl
twoarm score example.jsonl --out results > /dev/null
test -s results/report.html
twoarm init first --agent command > /dev/null
twoarm run first/suite.toml --out first/run --display quiet > /dev/null 2>&1
twoarm show first/run by-name 1 > /dev/null
twoarm log add example.jsonl --to history
twoarm log show history > /dev/null
for name in record analysis suite history; do twoarm schema "$name" > /dev/null; done
python -c 'import twoarm; print(twoarm.score("example.jsonl").decision)'
python -c 'import twoarm, sys; sys.exit("site-packages" not in twoarm.__file__)'
"""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--release", metavar="TAG")
    parser.add_argument("pythons", nargs="*", default=[sys.executable])
    given = parser.parse_args()
    # Not where a link leads: the Python of an environment is told by its own path.
    pythons = [os.path.abspath(shutil.which(python) or python) for python in given.pythons]
    with tempfile.TemporaryDirectory(prefix="twoarm-package-") as folder:
        at = Path(folder)
        first, second = build(at / "one"), build(at / "another place")
        compare(first, second)
        shutil.rmtree(DIST, ignore_errors=True)
        shutil.copytree(at / "one" / "dist", DIST)
        subprocess.run(
            [sys.executable, "-m", "twine", "check", "--strict", *sorted(DIST.iterdir())],
            check=True,
        )
        (wheel,), (sdist,) = (list(DIST.glob(f"*{ending}")) for ending in (".whl", ".tar.gz"))
        check_metadata(wheel, given.release)
        for number, python in enumerate(pythons):
            tried(python, f"{wheel}[html]", at / f"wheel{number}")
        tried(pythons[0], str(sdist), at / "sdist", page=False)
        try_action(pythons[0], at / "action")
    print(f"the package is good: {wheel.name}, {sdist.name}")
    return 0


def build(folder: Path) -> dict[str, str]:
    """A build of what git tracks, in a folder of its own; the digest of each file."""
    tree = folder / "tree"
    names = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT).split(b"\0")
    for name in map(os.fsdecode, filter(None, names)):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            # Times and modes of the copy are new each time.
            shutil.copyfile(ROOT / name, tree / name)
            os.chmod(tree / name, (ROOT / name).stat().st_mode & 0o777)
    env = {name: text for name, text in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    words = [sys.executable, "-m", "build", "--outdir", str(folder / "dist"), str(tree)]
    subprocess.run(words, check=True, env=env, stdout=subprocess.DEVNULL)
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((folder / "dist").iterdir())
    }


def compare(first: dict[str, str], second: dict[str, str]) -> None:
    if first != second:
        sys.exit(f"two builds differ: {first} and {second}")
    for name, digest in first.items():
        print(f"{digest}  {name}, the same twice")


def check_metadata(wheel: Path, tag: str | None) -> None:
    """Links survive on the index, and a release has the tag of its version."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
        text = archive.read(name).decode()
    metadata = email.message_from_string(text)
    body = metadata.get_payload()
    assert isinstance(body, str)
    relative = re.findall(r"\]\((?!https?://|#)[^)]*\)", body)
    if relative or len(metadata.get_all("Project-URL", [])) < 4:
        sys.exit(f"links that nobody can follow: {relative}")
    if tag is None:
        return
    if tag != f"v{metadata['Version']}":
        sys.exit(f"the tag is {tag}, and the version is {metadata['Version']}")
    if "OWNER" in text:
        sys.exit("OWNER is still in pyproject.toml: say where the project lives before a release")


def tried(python: str, what: str, folder: Path, *, page: bool = True) -> None:
    """An environment with it, and a new user's first steps in an empty folder."""
    folder.mkdir()
    subprocess.run([python, "-m", "venv", folder / "venv"], check=True)
    pip = [str(folder / "venv" / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    install = ["install", "-q", "-c", str(ROOT / "constraints.txt"), what]
    subprocess.run([*pip, *install], check=True, cwd=folder)
    steps = FIRST_STEPS if page else FIRST_STEPS.replace("test -s results/report.html\n", "")
    first_steps(folder, folder / "venv" / "bin", steps)
    version = subprocess.check_output([folder / "venv/bin/python", "--version"], text=True)
    print(f"tried with {version.strip()}: {Path(what).name}")


def first_steps(folder: Path, programs: Path, steps: str) -> None:
    home = folder / "home"
    home.mkdir()
    env = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(home), "LANG": "C.UTF-8"}
    done = subprocess.run(
        ["sh", "-c", steps], cwd=home, env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"the first steps fail:\n{done.stdout}{done.stderr}")


def try_action(python: str, folder: Path) -> None:
    """What the action installs, from a checkout that is not this one."""
    folder.mkdir()
    checkout = folder / "checkout"
    subprocess.run(["git", "clone", "-q", "--no-local", ROOT, checkout], check=True)
    for name in ("pyproject.toml", "constraints.txt", "action/install.sh"):
        shutil.copy(ROOT / name, checkout / name)
    output = folder / "output"
    env = os.environ | {
        "TWOARM_PYTHON": python,
        "RUNNER_TEMP": str(folder),
        "GITHUB_ACTION_PATH": str(checkout),
        "GITHUB_OUTPUT": str(output),
    }
    subprocess.run([checkout / "action" / "install.sh"], check=True, env=env, cwd=folder)
    program = output.read_text().strip().removeprefix("twoarm=")
    subprocess.run([program, "--version"], check=True, cwd=folder, stdout=subprocess.DEVNULL)
    print("tried with action/install.sh")


if __name__ == "__main__":
    sys.exit(main())
