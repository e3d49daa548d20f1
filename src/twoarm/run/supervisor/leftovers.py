"""What the engines of containers still have of an attempt that is over, by its name.

Standard library only, for the supervisor.
"""

import os
import subprocess

from twoarm.run.supervisor.program import find_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_SECONDS = 60
# A shorter name might be part of somebody else's.
_SHORTEST = 12
# How each kind of thing is listed, and removed; containers first, since they use the others.
_KINDS = (
    (("ps", "-a", "-q"), ("rm", "-f", "-v")),
    (("network", "ls", "-q"), ("network", "rm")),
    (("volume", "ls", "-q"), ("volume", "rm", "-f")),
)


def remove_named(engines: "Iterable[str]", name: str, env: "Mapping[str, str]") -> list[str]:
    """Remove containers, networks and volumes that have a name in theirs; what was in the way.

    An engine that is not there or does not answer has started nothing.
    """
    if len(name) < _SHORTEST:
        raise ValueError(name)
    wrong = []
    for engine in engines:
        program = find_on(env.get("PATH", os.defpath), engine)
        if program is None:
            continue
        for listed, removed in _KINDS:
            code, told = _asked([program, *listed, "--filter", f"name={name}"], env)
            if code:
                break
            if names := told.split():
                if removed[0] == "rm":
                    # Without it podman asks them to end, and waits ten seconds for that.
                    _asked([program, "kill", *names], env)
                code, told = _asked([program, *removed, *names], env)
                if code:
                    wrong.append(f"{engine} {' '.join(removed)}: {told.strip()[-200:]}")
    return wrong


def _asked(argv: list[str], env: "Mapping[str, str]") -> tuple[int, str]:
    """The exit code of a client, and what it prints; a failure says why."""
    try:
        done = subprocess.run(
            argv,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, str(error)
    told = done.stderr if done.returncode else done.stdout
    return done.returncode, told.decode("utf-8", "replace")
