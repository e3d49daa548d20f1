"""What a policy calls a style or a script that stands in the file itself."""

from base64 import b64encode
from hashlib import sha256


def hash_of(text: str) -> str:
    """The source expression that allows this text, and nothing else."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
