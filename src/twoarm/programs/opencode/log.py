"""The log of opencode, the one place that tells of a provider who refused and is asked again."""

import re
from datetime import datetime

from twoarm.programs.folder import Folder
from twoarm.programs.format import Refusal
from twoarm.programs.moment import seconds
from twoarm.text.escape import visible

LOG = "opencode.log"

_REFUSED = re.compile(
    rb'^timestamp=(\S+) level=ERROR [^\n]*?message="stream error"[^\n]*? error\.error="([^\n]*)"$',
    re.MULTILINE,
)


def refused_since(folder: Folder, moment: float | None) -> Refusal | None:
    """What the provider last said, if that was after a moment; any will do if there is none."""
    refusals = list(_REFUSED.finditer(folder.read(LOG))) if LOG in folder else []
    if not refusals:
        return None
    try:
        at = seconds(datetime.fromisoformat(refusals[-1][1].decode()))
    except ValueError:
        return None
    if at is None or (moment is not None and at <= moment):
        return None
    return Refusal(message=visible(refusals[-1][2].decode("utf-8", "replace")), status=None)
