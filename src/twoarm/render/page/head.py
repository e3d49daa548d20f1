"""The head of a page that stands alone, with a policy that allows nothing from elsewhere."""

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256

from twoarm.text.escape import html


def page_head(title: str, style: str, scripts: Sequence[str] = ()) -> str:
    """Allows the style and the scripts that stand in the file, word for word, and no more."""
    allowed = f"script-src {' '.join(map(_hash, scripts))}; " if scripts else ""
    policy = (
        f"default-src 'none'; {allowed}style-src {_hash(style)}; base-uri 'none'; "
        "form-action 'none'"
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{html(title)}</title>
<style>{style}</style>
</head>"""


def _hash(text: str) -> str:
    """The source expression that allows this text, and nothing else."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
