"""The file of a program: where it is, and why it could not be started; how git and cp are called.

Standard library only, for the supervisor.
"""

import os
import sys

# What a kernel reads of a file to tell what it is.
_HEAD_BYTES = 256
# What a shell says of a program that it cannot start, and of one that is not there.
NOT_EXECUTABLE = 126
NOT_FOUND = 127
# Nobody's settings: not the user's hooks, filters or line ends.
CLEAN_GIT = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
} | {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (
        ("NAME", "twoarm"),
        ("EMAIL", "twoarm@localhost"),
        ("DATE", "2000-01-01T00:00:00Z"),
    )
}
# Without copying bytes where the file system can.
COPY = ("cp", "-a", *(("--reflink=auto",) if sys.platform == "linux" else ()), "--")


def find_on(path: str, name: str) -> str | None:
    """The file that a program's name stands for, with this PATH; a path is that file itself."""
    if "/" in name:
        return name
    for folder in path.split(os.pathsep):
        program = os.path.join(folder, name)
        if os.path.isfile(program) and os.access(program, os.X_OK):
            return program
    return None


def why_unfit(path: str | None) -> str | None:
    """Why a file cannot be started as a program, or None, as far as that can be told unstarted."""
    if path is None or not os.path.exists(path):
        return "no such file"
    if not os.path.isfile(path):
        return "a folder, not a program" if os.path.isdir(path) else "not a file"
    if not os.access(path, os.X_OK):
        return "not executable; chmod +x would make it so"
    try:
        with open(path, "rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        # It may be started and not be read.
        return None
    if not head.startswith(b"#!"):
        # Any other program has bytes in its head that no text has.
        return None if b"\0" in head else "a script without a first line such as `#!/bin/sh`"
    interpreter = os.fsdecode(head[2:].split(b"\n", 1)[0].strip(b" \t").split(b" ", 1)[0])
    if os.path.isabs(interpreter) and not os.path.exists(interpreter):
        return f"its first line names `{interpreter}`, which is not there"
    return None
