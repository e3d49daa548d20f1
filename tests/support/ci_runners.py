"""What the runners of CI systems take for a command in a line of a log, by their own rules.

GitHub's runner takes `::name properties::data` where a line begins so after white space, and
`##[name properties]data` at the first `##[` of the line, both for names it knows, in any case. It
compares text by culture, which passes over characters that nobody sees. Azure's agent takes
`##vso[area.event properties]data` at the first `##vso[`, TeamCity `##teamcity[name ...]`.
"""

import re
import unicodedata

GITHUB = frozenset(
    {
        *("add-mask", "add-matcher", "add-path", "debug", "echo", "endgroup", "error", "group"),
        *("internal-set-repo-path", "notice", "remove-matcher", "save-state", "set-env"),
        *("set-output", "stop-commands", "warning"),
    }
)

# Printable, and yet passed over in a comparison: joiners, fillers, variation selectors.
_PASSED_OVER = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0")


def log_lines(text: str) -> list[str]:
    """The lines of a log, which end at `\\n`, `\\r` or both."""
    return re.split(r"\r\n|\r|\n", text)


def commands(text: str) -> list[str]:
    """Every command that some runner would execute in this log."""
    return [found for line in log_lines(text) if (found := _command(line)) is not None]


def _command(line: str) -> str | None:
    seen = "".join(one for one in line if not _passed_over(one))
    return _github(seen) or _github_first(seen) or _azure(seen) or _teamcity(seen)


def _passed_over(character: str) -> bool:
    return (
        character in _PASSED_OVER
        or "VARIATION SELECTOR" in unicodedata.name(character, "")
        or (unicodedata.category(character) in ("Cc", "Cf") and not character.isspace())
    )


def _github(line: str) -> str | None:
    line = line.lstrip()
    if not line.startswith("::"):
        return None
    end = line.find("::", 2)
    if end < 0:
        return None
    name = line[2:end].split(" ")[0]
    return f"::{name}" if name.lower() in GITHUB else None


def _github_first(line: str) -> str | None:
    start = line.find("##[")
    end = line.find("]", start)
    if start < 0 or end < 0:
        return None
    name = line[start + 3 : end].split(" ")[0]
    return f"##[{name}]" if name.lower() in GITHUB else None


def _azure(line: str) -> str | None:
    start = line.find("##vso[")
    end = line.find("]", start)
    if start < 0 or end < 0:
        return None
    name = line[start + 6 : end].split(" ")[0]
    return f"##vso[{name}]" if len(list(filter(None, name.split(".")))) == 2 else None


def _teamcity(line: str) -> str | None:
    start = line.find("##teamcity[")
    return "##teamcity[" if start >= 0 and line.find("]", start) >= 0 else None
