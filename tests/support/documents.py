"""The documents, for tests that do what they say: blocks of commands, and a shell to run them."""

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def blocks(path: Path, language: str) -> list[str]:
    """The blocks of a document in one language, as they are written."""
    text = path.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.M | re.S)


def block_with(path: Path, words: str) -> str:
    """The one block of commands that has these words."""
    (script,) = (script for script in blocks(path, "(?:sh|bash)") if words in script)
    return script


def bash(script: str, folder: Path, **variables: str) -> str:
    """What a script prints in a folder, where no line of it may fail."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, script + done.stdout
    return done.stdout
