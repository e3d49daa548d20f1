"""podman and docker: images by their ids, what is in them, and what a killed run left running."""

import os
import re
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from twoarm.errors import InputError, UsageError
from twoarm.run.supervisor.isolation import AS_SHELL
from twoarm.text.escape import named, visible

_SECONDS = 120
_BUILD_SECONDS = 3600
# What podman says where a user may set no limits.
_UNLIMITED = b"limits are not supported and ignored"
# Both print what the program on standard input is started with, if that is not there: of a script,
# what its first line names; of any other, the loader of its libraries, as far as there are tools to
# see it.
INTERPRETER = (
    'IFS= read -r line; case $line in "#!"*) set -f; set -- ${line#??}; '
    'if test "${1##*/}" = env && command -v "$1" > /dev/null; then shift; '
    "while case $1 in -*|*=*) ;; *) false ;; esac; do shift; done; fi; "
    'command -v "$1" > /dev/null || echo "$1" ;; esac'
)
LOADER = (
    'head -c 4096 | tr "\\0" "\\n" | if IFS= read -r line; case $line in ?ELF*) ;; *) false ;; '
    "esac; then while IFS= read -r line; do case $line in /*/ld-*) "
    'test -e "$line" || echo "$line"; break ;; esac; done; fi'
)
# How engines, or what they start in front of it, name the shell that is not there.
_NO_SHELL = (AS_SHELL[-1], "exec pid1")
# What docker says last, whatever was wrong.
_NO_REASON = re.compile(r"(Run|See) 'docker [^']*--help'")
# Networks without an entry of their own, and what names one that has.
_NETWORKS = ("none", "host", "bridge", "default", "private", "pasta", "slirp4netns")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
# What the probe prints between its answers, which no program does.
_MARK = "--twoarm--"
# Is told a folder of ours, perhaps a program, whether that has a version, and where to look for it.
_PROBE = (
    f'echo {_MARK}; id -u; echo {_MARK}; test -e "$0/seen" && echo seen && '
    f'echo x > "$0/probe" && echo written; echo {_MARK}; '
    'test -z "$1" && exit; test -z "$3" || PATH=$3; found=$(command -v "$1"); '
    f'echo "$found"; echo {_MARK}; '
    'case $found in */*) test -f "$found" && test -x "$found" ;; esac && echo fits; '
    f'echo {_MARK}; {{ ({INTERPRETER}) < "$found"; ({LOADER}) < "$found"; }} 2> /dev/null; '
    f"echo {_MARK}; "
    f'test -z "$2" || "$1" --version 2>&1'
)


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """The client of an engine."""

    name: str
    path: str

    def ask(
        self, *words: str, seconds: float | None = None, at: str | None = None
    ) -> "subprocess.CompletedProcess[bytes]":
        """One command of the client, which is killed if it hangs; in a folder, or where we are."""
        seconds = _SECONDS if seconds is None else seconds
        try:
            return subprocess.run(
                [self.path, *words],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=seconds,
                check=False,
                cwd=at,
            )
        except subprocess.TimeoutExpired as error:
            raise InputError(
                f"--isolation {self.name}: {self.name} {words[0]} has not answered within "
                f"{seconds:g} s; restart {self.name}, or take another isolation"
            ) from error

    def image_id(self, key: str, image: str) -> str:
        """What an image is now."""
        known = self._id_of(image)
        if known is None:
            raise InputError(
                f"{key}: {self.name} has no image {named(image)}; get it with "
                f"`{self.name} pull {visible(image)}`, or build it"
            )
        return known

    def same_image(self, key: str, image: str) -> str:
        """The image with an id of an earlier schedule."""
        if self._id_of(image) is None:
            raise InputError(
                f"{key}: {self.name} no longer has the image of the runs that are there, "
                f"{visible(image[:12])}; load it again, or start over with another --out"
            )
        return image

    def has(self, image: str) -> bool:
        """Whether it has an image."""
        return self._id_of(image) is not None

    def _id_of(self, image: str) -> str | None:
        done = self.ask("image", "inspect", "--format", "{{.Id}}", "--", image)
        if done.returncode:
            return None
        return done.stdout.decode("ascii", "replace").split()[0].removeprefix("sha256:")

    def check_network(self, key: str, network: str | None) -> None:
        """Refuse the name of a network that is not there."""
        # What else an engine takes for one has no name that could be looked up.
        if network is None or network in _NETWORKS or not _NAME.fullmatch(network):
            return
        done = self.ask("network", "inspect", "--", network)
        if done.returncode:
            raise InputError(
                f"{key}: {self.name} has no network {named(network)}: {last_line(done.stderr)}; "
                f'write "none", "host" or one that `{self.name} network ls` names'
            )

    def build(self, key: str, path: str) -> str:
        """The image of a Dockerfile, from the folder that it is in."""
        done = self.ask("build", "-q", "-f", path, os.path.dirname(path), seconds=_BUILD_SECONDS)
        if done.returncode:
            told = " / ".join(last_lines(done.stderr, 3))
            raise InputError(f"{key}: {visible(path)} cannot be built: {told}")
        # By what was built here, whatever else is built meanwhile.
        image = last_line(done.stdout).removeprefix("sha256:")
        # A name of its own keeps it from being cleared away.
        self.ask("tag", image, f"twoarm-suite:{image[:12]}")
        return self.image_id(key, image)

    def clear(self, label: str, seconds: float | None = None) -> str | None:
        """Remove the containers with a label, running or not; why there may be some left."""
        why = None
        # The first time only stops what nobody watched over any more.
        for _ in range(2):
            done = self.ask("ps", "-a", "-q", "--filter", f"label={label}", seconds=seconds)
            if ids := done.stdout.decode("ascii", "replace").split():
                done = self.ask("rm", "-f", "-v", *ids, seconds=seconds)
            why = last_line(done.stderr) if done.returncode else None
            if why is None:
                break
        return why


def find_engine(name: str) -> Engine:
    """An engine that answers."""
    path = shutil.which(name)
    if path is None:
        raise UsageError(f"--isolation {name}: {name} is not installed; see your package manager")
    engine = Engine(name=name, path=path)
    done = engine.ask("version")
    if done.returncode:
        raise UsageError(f"--isolation {name}: it does not answer: {last_line(done.stderr)}")
    return engine


class Sought(msgspec.Struct, frozen=True, kw_only=True):
    """A program to look for in images; none where it is made later."""

    name: str
    # Only one that has a version is asked for it, since another might begin to work.
    has_version: bool
    # Where it is looked for, if not where the image says.
    path: str


class InImage(msgspec.Struct, frozen=True, kw_only=True):
    """A program in an image."""

    path: str
    # What it is started with, if it is a script and the image does not have that.
    lacks: str
    # What it prints when it is asked for its version.
    printed: str
    # Whether the engine holds a container to its limits.
    limited: bool = True


def look_into(
    engine: Engine,
    run: Sequence[str],
    image: str,
    shown: str,
    sought: Sought,
    root: str,
) -> InImage:
    """Whether steps can run in an image: its shell, its user, and a program, if one is sought.

    `run` is how every step is started; `shown` is what the suite calls the image; `root` is where
    workspaces will be.
    """
    with tempfile.TemporaryDirectory(prefix="twoarm-", dir=root) as where:
        # Whoever sees the folder sees what is in it, and only its owner may write to it.
        os.chmod(where, 0o755)
        with open(os.path.join(where, "seen"), "xb"):
            pass
        name = f"twoarm-{secrets.token_hex(6)}"
        words = (*run[1:], "--rm", "--name", name, "-v", f"{where}:{where}", "-w", where)
        last = (where, sought.name, "yes" if sought.has_version else "", sought.path)
        try:
            done = engine.ask(*words, *AS_SHELL, image, "-c", _PROBE, *last, at=where)
        except BaseException:
            # Only the client was ended; the program may be what hangs.
            with suppress(InputError):
                engine.ask("rm", "-f", "-v", name)
            raise
        parts = [part.strip() for part in done.stdout.decode("utf-8", "replace").split(_MARK)]
        what = f"image {named(shown)}"
        if len(parts) == 1:
            reason = last_line(done.stderr)
            if any(words in reason for words in _NO_SHELL):
                raise InputError(f"{what} has no /bin/sh, which every step is started with")
            raise InputError(
                f"--isolation {engine.name}: no container of {what} can be started: {reason}"
            )
        probe = os.path.join(where, "probe")
        seen = parts[2].split()
        if not seen or ("written" in seen and not os.path.exists(probe)):
            raise InputError(
                f"--isolation {engine.name}: {engine.name} does not see {visible(root)}, where "
                "workspaces are; it must run on this machine, or share that folder"
            )
        owner = os.stat(probe).st_uid if "written" in seen else None
        _refuse_user(what, parts[1], owner)
    if sought.name and not parts[3]:
        raise InputError(f"{what} has no program {named(sought.name)}; install it in the image")
    if sought.name and not parts[4]:
        raise InputError(
            f"{what} has {visible(parts[3])}, and that is no program which can be started; "
            "make it an executable file (chmod +x) in the image, or name another"
        )
    limited = _UNLIMITED not in done.stderr
    there, _, lacks, printed = parts[3:7] if sought.name else ("", "", "", "")
    return InImage(path=there, lacks=lacks, printed=printed, limited=limited)


def _refuse_user(what: str, user: str, owner: int | None) -> None:
    """Refuse an image whose user cannot write to our folders, or writes as somebody else."""
    ours = os.geteuid()
    if owner is None and user == str(ours):
        raise InputError(
            f"{what}: its engine takes user {ours} for another, who cannot write to your folders; "
            "use --isolation podman"
        )
    if owner is None:
        raise InputError(
            f"{what} runs as user {visible(user)}, who cannot write to folders of user {ours}; "
            f"add `USER {ours}` to the image"
        )
    if owner != ours:
        raise InputError(
            f"{what}: what it writes belongs to user {owner}, and not to {ours}, who runs twoarm; "
            f"add `USER {ours}` to the image"
        )


def last_line(text: bytes) -> str:
    """The last thing that a program said."""
    return last_lines(text, 1)[0]


def last_lines(text: bytes, most: int) -> list[str]:
    """The last things that a program said; at least one."""
    lines = [line.strip() for line in text.decode("utf-8", "replace").splitlines()]
    lines = [line for line in lines if line and not _NO_REASON.match(line)]
    return list(map(visible, lines[-most:])) or ["no reason given"]
