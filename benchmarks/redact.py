"""How fast secrets are redacted from 100 MB of what agents print.

python -m benchmarks.redact [MEGABYTES]
"""

import io
import json
import random
import sys
import sysconfig
import time
from pathlib import Path

from twoarm.run.supervisor.redact import Redactor

_WORD = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def transcript(size: int) -> bytes:
    """Lines of JSON with source code in them, as of an agent that reads files."""
    chance = random.Random(1)
    library = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in library]
    made = bytearray()
    while len(made) < size:
        text = chance.choice(texts)
        start = chance.randrange(len(text) + 1)
        event = {
            "type": "user",
            "uuid": f"{chance.getrandbits(128):032x}",
            "content": text[start : start + chance.randrange(200, 4000)],
            "usage": {"input_tokens": chance.randrange(10**5), "cost": chance.random()},
        }
        made += json.dumps(event).encode() + b"\n"
    return bytes(made)


def main() -> None:
    size = int(sys.argv[1] if sys.argv[1:] else 100) * 10**6
    text = transcript(size)
    chance = random.Random(2)
    key, *keys = ("sk-" + "".join(chance.choices(_WORD + "-_", k=100)) for _ in range(5))
    lines = ("".join(chance.choices(_WORD + "+/", k=64)) for _ in range(26))
    secrets = {
        "no secret": {},
        "a key": {"KEY": key},
        "five keys": {f"KEY{number}": value for number, value in enumerate([key, *keys])},
        "a private key": {"KEY": "-----BEGIN PRIVATE KEY-----\n" + "\n".join(lines)},
        "odd characters": {"KEY": 'sk-ant/"ü+& 9Zq\\tail'},
    }
    for what, values in secrets.items():
        redactor = Redactor(values)
        began = time.process_time()
        redactor.copy(io.BytesIO(text), io.BytesIO(), size)
        seconds = time.process_time() - began
        print(f"{what}: {size / 10**6 / seconds:.0f} MB/s")


if __name__ == "__main__":
    main()
