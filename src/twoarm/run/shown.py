"""What a step may read in a sandbox besides its own folders: paths, by why it needs them."""

import os
import re
import stat
from collections import deque
from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import islice

from twoarm.run.supervisor.patch import may_hold_keys

# What comes with an operating system and so is known to everybody, but for what is added to it; the
# first that are links stay links.
_DISTRIBUTED = (
    *("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr", "/etc"),
    *("/nix", "/gnu", "/var/lib/ca-certificates"),
)
_ADDED = "/usr/local"
# What a system is made of.
SYSTEM = (*_DISTRIBUTED, "/opt")
# What may have keys or passwords of the machine in it, and how many of its folders are looked at.
_SECRETIVE = "/etc"
_MOST_FOLDERS = 5_000
# Folders of programs whose own folder has what the programs need, under these names; whatever else
# is there may be anything.
_PROGRAMS = ("bin", "sbin", "shims", ".bin")
# Says that a folder is an environment of Python, and whose.
_ENVIRONMENT = "pyvenv.cfg"
_BESIDE = (
    *("bin", "sbin", "shims", "lib", "lib32", "lib64", "libexec", "share", "include"),
    *("versions", "version", "installs", "install", "plugins", _ENVIRONMENT),
    *("jmods", "release", "Cellar", "toolchains"),
)
# Names that a user's own folders have as well, and what is beside them where they are what programs
# are made of: those of Go, Java and Homebrew.
_GO = "src/runtime/runtime.go"
_BESIDE_IF = {"src": _GO, "pkg": _GO, "conf": "release", "opt": "Cellar"}
# A folder of programs has fewer links than that, and whoever follows them has fewer steps to take.
_MOST_LINKS = 5_000
_PACKAGES = "/node_modules/"
# A kernel follows no more.
_MOST_HOPS = 40
# What comes before a path, and may stand between: `-I/usr/include`, `@/tmp/words`,
# `file:///etc/hosts`. Anything else makes it the end of another path.
_BEFORE = re.compile(r"""[\s"'`:;,=|&<>({\[]""")
_ATTACHED = re.compile(r"/*|-\w|@")
# What a sandbox has of its own.
_OWN = ("/tmp", "/var/tmp")
_OF_THE_KERNEL = ("/proc", "/sys", "/dev", "/run")
# No path is longer, and these may stand behind one.
_LONGEST_NAME = 4096
# Two slashes are in front of a host, but for those of a URL of a file.
_BEGINS = re.compile(r"(?<![\w/.}-])/(?!/)|(?<=file://)/")
_AROUND = re.compile(r"""[\s"'`:;,=|&<>(){}\[\]]""")
_HALF_QUOTED = ("'/", '"/', "/'", '/"')
# The same, and where a pattern begins; and how many of them a name may have in it.
_AROUND_WHOLE = re.compile(r"""[\s"'`:;,=|&<>(){}\[\]*?$\\]""")
_MOST_AROUND = 16
_QUOTES, _OF_PATTERNS = "\"'", "*?[{$`\\"


class Layer(Enum):
    """What a step finds at a path: what is there, an empty folder, or an empty file."""

    SHOWN = "shown"
    EMPTY = "empty"
    BLANK = "blank"


def lies(path: str, above: str) -> bool:
    """Whether a path is a folder itself or below it, as the texts say."""
    return path == above or path.startswith(above.rstrip("/") + "/")


def program_trees(
    path_variable: str, program: str | None, kept_back: Iterable[str], own: Iterable[str] = ()
) -> list[str]:
    """What the programs on PATH are made of: their folders, the folders of what links lead to.

    Whatever holds something that is kept back is not shown as a whole; nor is what a program of the
    user's own is beside.
    """
    trees = _Trees([os.path.realpath(path) for path in kept_back], list(own))
    for folder in path_variable.split(os.pathsep):
        if os.path.isabs(folder) and os.path.isdir(folder):
            trees.add_folder(folder)
    if program is not None:
        trees.add_program(program)
    return trees.shown


class _Trees:
    def __init__(self, kept_back: list[str], own: list[str]) -> None:
        self._kept_back = kept_back
        self._own = own
        self.shown: list[str] = []

    def add_folder(self, folder: str) -> None:
        """A folder of programs, and whatever its links lead to."""
        # By the name that leads there, too: what is beside that may be another folder.
        for name in dict.fromkeys((folder, os.path.realpath(folder))):
            if not self._is_shown(name):
                self._add(folder)
                self._add_prefix(name)
        try:
            with os.scandir(folder) as entries:
                links = [each.path for each in islice(entries, _MOST_LINKS) if each.is_symlink()]
        except OSError:
            # Programs in it can be started, and not be listed.
            return
        for path in links:
            self.add_program(path)

    def add_program(self, path: str) -> None:
        """A program, the package that it is from and the interpreter of that."""
        real = os.path.realpath(path)
        if _is_environment(os.path.dirname(os.path.dirname(path))):
            # Its program is a link to that of all environments.
            self._add_prefix(os.path.dirname(path))
        if self._is_shown(real) or not os.path.isfile(real):
            return
        self._add(path)
        if _PACKAGES in real:
            self._add(real[: real.rindex(_PACKAGES) + len(_PACKAGES) - 1])
        elif self._has_prefix(os.path.dirname(real)):
            self._add_prefix(os.path.dirname(real))
        self._add(real)

    def _has_prefix(self, folder: str) -> bool:
        """Whether it is part of what was installed as a whole; beside a program of a suite, there
        may be what grades it."""
        return os.path.basename(folder) in _PROGRAMS and not self._is_too_much(
            os.path.dirname(folder)
        )

    def _add_prefix(self, folder: str) -> None:
        """What a folder of programs is part of; only the folder itself, if that is too much."""
        prefix = os.path.dirname(folder)
        if not self._has_prefix(folder):
            self._add(folder)
            return
        for name in (*_BESIDE, *_BESIDE_IF):
            needed = (name, _BESIDE_IF.get(name, name))
            if all(os.path.exists(os.path.join(prefix, path)) for path in needed):
                self._add(os.path.join(prefix, name))
        try:
            with open(os.path.join(prefix, _ENVIRONMENT), encoding="utf-8") as file:
                homes = [line.partition("=")[2].strip() for line in file if line.startswith("home")]
        except (OSError, UnicodeDecodeError):
            return
        for home in homes:
            if os.path.isdir(home) and not self._is_shown(home):
                self._add(home)
                self._add_prefix(os.path.realpath(home))

    def _is_shown(self, path: str) -> bool:
        """Whether it is in what is shown, with nothing around it that is hidden in there."""
        return any(
            lies(path, tree)
            and not any(lies(path, kept) and lies(kept, tree) for kept in self._kept_back)
            for tree in (*SYSTEM, *self.shown)
        )

    def _is_too_much(self, prefix: str) -> bool:
        """Whether it holds what is kept back, or all that a user has installed and configured, or
        is part of what is graded and what grades it.

        Of an environment of Python it is known what is in which of its folders.
        """
        if os.path.basename(prefix) == ".local" or prefix in self._kept_back:
            return True
        if _is_environment(prefix):
            return False
        if any(lies(os.path.realpath(prefix), path) for path in self._own):
            return True
        return os.path.dirname(prefix) == "/" or any(lies(path, prefix) for path in self._kept_back)

    def _add(self, path: str) -> None:
        if not self._is_shown(path) and not any(lies(kept, path) for kept in self._kept_back):
            self.shown.append(path)


def _is_environment(prefix: str) -> bool:
    """Whether a folder is an environment of Python."""
    return os.path.isfile(os.path.join(prefix, _ENVIRONMENT))


def keys_in(trees: Iterable[str]) -> Iterator[str]:
    """Files right inside these folders that may hold keys, by their names."""
    for tree in trees:
        try:
            names = os.listdir(tree) if os.path.isdir(tree) else []
        except OSError:
            continue
        yield from (os.path.join(tree, name) for name in names if may_hold_keys(name))


def secrets() -> list[str]:
    """What is shown with the system and not meant for everybody, if this user could read it.

    Of very many folders the last ones are not meant for anybody.
    """
    paths, folders = [], deque([_SECRETIVE])
    for _ in range(_MOST_FOLDERS):
        if not folders:
            break
        try:
            with os.scandir(folders.popleft()) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        continue
                    if _is_private(entry):
                        paths.append(entry.path)
                    elif entry.is_dir():
                        folders.append(entry.path)
        except OSError:
            continue
    return [*paths, *folders]


def _is_private(entry: "os.DirEntry[str]") -> bool:
    """Whether this user may read what not everybody may."""
    return not entry.stat().st_mode & stat.S_IROTH and os.access(entry.path, os.R_OK)


def named_in(texts: Iterable[str], folder: str) -> list[str]:
    """The paths below a folder that texts name, and the folder itself where one names just that."""
    paths = []
    for following in _mentions(texts, folder):
        ends = [len(following), *(cut.start() for cut in _AROUND.finditer(following))]
        for end in sorted(ends, reverse=True):
            path = (folder + following[:end]).rstrip("/")
            # Not another name that begins like that of the folder.
            if (following[:1] in ("", "/") or end == 0) and os.path.lexists(path):
                paths.append(path)
                break
    return paths


def around_patterns(texts: Iterable[str], folder: str) -> list[str]:
    """The innermost folders that are there around patterns, and around names that only a shell puts
    together."""
    paths = []
    for following in _mentions(texts, folder):
        known = _AROUND_WHOLE.split(following, maxsplit=1)[0]
        end, path = following[len(known) : len(known) + 1], folder + known
        begun = end in _QUOTES and not os.path.lexists(path)
        if known[:1] in ("", "/") and end and (end in _OF_PATTERNS or begun):
            inner = os.path.dirname(path) if known else folder
            paths.append(next(filter(os.path.isdir, _upwards(inner))))
    return paths


def _upwards(path: str) -> Iterator[str]:
    """A path, and the folders that it is in."""
    while path != "/":
        yield path
        path = os.path.dirname(path)
    yield path


def _mentions(texts: Iterable[str], folder: str) -> Iterator[str]:
    """What follows on the name of a folder wherever texts have it, up to the end of the line."""
    for text in texts:
        for match in re.finditer(re.escape(folder), text):
            before = text[max(0, match.start() - _LONGEST_NAME) : match.start()]
            if not _ATTACHED.fullmatch(_BEFORE.split(before)[-1]):
                continue
            following = text[match.end() :].split("\n", 1)[0][:_LONGEST_NAME]
            # The folder alone was in quotes, or all but the folder.
            yield "/" + following[2:] if following[:2] in _HALF_QUOTED else following


def led_out(paths: Iterable[str], folder: str) -> list[str]:
    """Where the first link in each of these paths below a folder leads, if that is elsewhere: every
    link on the way, and what is at its end."""
    led: dict[str, None] = {}
    for path in paths:
        at = folder
        for name in os.path.relpath(path, folder).split(os.sep) if lies(path, folder) else ():
            at = os.path.join(at, name)
            real = os.path.realpath(at)
            if os.path.islink(at) and not lies(real, os.path.realpath(folder)):
                led |= dict.fromkeys((*_hops(at), real))
                break
    return list(led)


def _hops(link: str) -> Iterator[str]:
    """The links that a link leads to, one after another."""
    for _ in range(_MOST_HOPS):
        link = os.path.normpath(os.path.join(os.path.dirname(link), os.readlink(link)))
        if not os.path.islink(link):
            return
        yield link


def absolute_in(texts: Iterable[str], kept_back: Iterable[str]) -> list[str]:
    """The whole paths that texts name and that are there; nothing that holds what is kept back."""
    paths = []
    for text in texts:
        done = 0
        for match in _BEGINS.finditer(text):
            # Not what is in a name that has been found.
            if match.start() < done or (name := _whole(text[match.start() :])) is None:
                continue
            done = match.start() + len(name)
            path = os.path.normpath(name)
            own = path in _OWN or any(lies(path, above) for above in _OF_THE_KERNEL)
            if not own and not holds(path, kept_back):
                paths.append(path)
    return paths


def _whole(text: str) -> str | None:
    """The longest path that a text begins with and that is there; names may have spaces."""
    line = text.split("\n", 1)[0][:_LONGEST_NAME]
    cuts = [cut.start() for cut in _AROUND_WHOLE.finditer(line)]
    ends = [*cuts[:_MOST_AROUND], *([] if cuts[_MOST_AROUND:] else [len(line)])]
    return next((line[:end] for end in sorted(ends, reverse=True) if _is_there(line[:end])), None)


def _is_there(path: str) -> bool:
    return path.strip("/") != "" and os.path.exists(path)


def holds(path: str, kept_back: Iterable[str]) -> bool:
    """Whether what is kept back is in a folder, or is that folder, links followed."""
    return any(lies(kept, above) for kept in kept_back for above in {path, os.path.realpath(path)})


def may_grade(path: str) -> bool:
    """Whether what an acceptance command names may hold what is asked for, and is no program."""
    distributed = any(lies(path, above) for above in _DISTRIBUTED) and not lies(path, _ADDED)
    program = os.path.basename(os.path.dirname(path)) in _PROGRAMS and os.access(path, os.X_OK)
    return not (distributed or program or os.path.isdir(os.path.join(path, "bin")))


def layers(reads: Iterable[str], hidden: Iterable[str]) -> list[tuple[str, Layer]]:
    """What is shown and hidden, the outer before the inner.

    What is hidden is only hidden where something around it is shown, and what is shown below it is
    shown all the same.
    """
    shown = _settled(reads)
    names = _as_seen(hidden, shown)
    what = {path: Layer.EMPTY for path in names if os.path.isdir(path)}
    what |= {path: Layer.BLANK for path in names if os.path.isfile(path)}
    what |= dict.fromkeys(shown, Layer.SHOWN)
    done: dict[str, Layer] = {}
    for path in sorted(what, key=lambda path: (path.count("/"), path)):
        around = [above for above in done if above != path and lies(path, above)]
        nearest = done[max(around, key=len)] if around else Layer.EMPTY
        # Nothing is there yet that would have to be hidden, or it is there already.
        if (nearest == Layer.SHOWN) != (what[path] == Layer.SHOWN):
            done[path] = what[path]
    return list(done.items())


def _settled(reads: Iterable[str]) -> list[str]:
    """What is shown in something else that is, by the name that no link leads to: the link is
    there, and nothing can be put in its place."""
    paths = list(dict.fromkeys(reads))
    inside = {path for path in paths for above in paths if path != above and lies(path, above)}
    return [os.path.realpath(path) if path in inside else path for path in paths]


def sees(shown: Iterable[tuple[str, Layer]], path: str) -> bool:
    """Whether a path, or what it leads to, is shown by the innermost layer around it."""
    what = dict(shown)
    trees = [name for name, layer in what.items() if layer == Layer.SHOWN]
    for name in _as_seen([path], trees):
        around = [above for above in what if lies(name, above)]
        if around and what[max(around, key=len)] == Layer.SHOWN:
            return True
    return False


def _as_seen(hidden: Iterable[str], shown: Iterable[str]) -> list[str]:
    """What is hidden by its real name, and by those that it has below links among what is shown."""
    led = [(path, os.path.realpath(path)) for path in shown]
    seen = dict.fromkeys(map(os.path.realpath, hidden))
    for real in list(seen):
        for name, target in led:
            if name != target and lies(real, target):
                seen[name + real[len(target) :]] = None
    return list(seen)


def system_folders() -> tuple[list[str], dict[str, str]]:
    """What an operating system is made of: folders to show, and links with what they say."""
    links = {path: os.readlink(path) for path in SYSTEM if os.path.islink(path)}
    folders = [path for path in SYSTEM if os.path.isdir(path) and path not in links]
    # What tells names from addresses may be a link to elsewhere.
    resolver = os.path.realpath("/etc/resolv.conf")
    if os.path.exists(resolver):
        folders.append(resolver)
    return folders, links
