"""Striking out: every coding that a program may use on the way, and nothing that is no secret."""

import base64
import io
import json
import os
import shutil
import subprocess
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.leaked_secrets import (
    CODINGS,
    WRAPPINGS,
    hexdump,
    in_lines,
    leaks,
    string,
    wrapped,
    xxd,
)
from twoarm.run.supervisor.redact import Redactor

PEM = """-----BEGIN PRIVATE KEY-----
MIIEvAIBADANBgkqhkiG9w0BAQEFAASCBKYwggSiAgEAAoIBAQCzSB5wgJ6tmlXg
TCpu3GAltGzyDrYT3hWeQSyohRnof39C+A/Hjhm1z6YwsA==
-----END PRIVATE KEY-----
"""
SECRETS = {
    "short": "hunter2!",
    "plain": "plainsecret0123",
    "odd": " sk-ant/\"ü+&' 9Zq\\ßtail🔑",
    "words": "correct horse battery staple",
    "pem": PEM,
}


def copied(redactor: Redactor, text: bytes, most: int = 2**30) -> bytes:
    made = io.BytesIO()
    redactor.copy(io.BytesIO(text), made, most)
    return made.getvalue()


@pytest.mark.parametrize("coding", CODINGS)
def test_no_reader_gets_a_secret_out_of_what_is_kept(coding: str) -> None:
    for number, secret in enumerate(SECRETS.values()):
        redactor = Redactor({"KEY": secret})
        for wrapping in WRAPPINGS:
            # All places in threes and in lines take their turn.
            number += 1
            before = "x" * (number % 3 + number % 5 * 13)
            text = wrapped(wrapping, coding, f"{before}user:{secret}, and so on and on")
            if text is None:
                continue
            assert leaks(text, secret), f"the reader does not read this: {text!r}"
            assert redactor.holds(io.BytesIO(text)), (wrapping, secret)
            redacted = redactor.content(text)
            assert not leaks(redacted, secret), (wrapping, secret, redacted)
            assert b"[secret KEY]" in redacted.replace(b"\0", b"")
            if "string" in wrapping:
                json.loads(redacted)


@pytest.mark.parametrize(
    "command",
    [
        "base64", "base64 -w 20", "od -An -tx1", "od -tx1", "od -An -tx1z", "od -x", "xxd",
        "xxd -p", "xxd -i", "xxd -u -c 8", "hexdump -C", "hexdump", "openssl enc -base64",
    ],
)  # fmt: skip
def test_what_tools_print_of_a_secret_is_redacted(command: str) -> None:
    if shutil.which(command.split()[0]) is None:
        pytest.skip(f"{command} is not installed")
    secret = "sk-ant-api03-Qm9vdHN0cmFwcGVkX2tleQ"
    for before in range(20):
        text = b"." * before + secret.encode() + b" is the key"
        ran = subprocess.run(command.split(), input=text, capture_output=True, check=True)
        for kept in (ran.stdout, string(ran.stdout)):
            redacted = Redactor({"KEY": secret}).content(kept)
            assert b"[secret KEY]" in redacted, kept
            assert not leaks(redacted, secret), redacted


@pytest.mark.parametrize("before", ["", "a", "ab", "user:", "Bearer "])
@pytest.mark.parametrize("after", ["", "z", "zz"])
def test_of_base64_no_more_is_left_than_its_neighbours_share(before: str, after: str) -> None:
    secret = SECRETS["odd"].strip()
    whole = base64.b64encode((before + secret + after).encode()).decode()
    redacted = Redactor({"KEY": secret}).text(whole)
    assert "[secret KEY]" in redacted
    kept = redacted.replace("[secret KEY]", "")
    assert len(kept) <= len(base64.b64encode((before + after).encode())) + 4


def test_base64_with_hardly_a_letter_is_found_in_both_alphabets() -> None:
    for before in ("", "a", "ab"):
        for code in (base64.b64encode, base64.urlsafe_b64encode):
            coded = code(f"{before}>>>>>>>>cd".encode())
            assert b"[secret KEY]" in Redactor({"KEY": ">>>>>>>>"}).content(coded), coded


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_pieces_of_any_size_give_what_the_whole_gives(secret: str) -> None:
    codings = (coding(secret + " and ") for coding in CODINGS.values())
    text = b"\n".join(in_lines(coded, 90, b"\n> ") for coded in codings)
    whole = Redactor({"KEY": secret}).content(text)
    for piece in (200, 977, 5000):
        redactor = Redactor({"KEY": secret, "OTHER": "another secret"}, piece=piece)
        assert copied(redactor, text) == whole, piece


@given(st.binary(max_size=60), st.binary(max_size=60), st.integers(1, 40))
def test_a_secret_across_two_pieces_is_redacted(head: bytes, tail: bytes, piece: int) -> None:
    secret = SECRETS["plain"].encode()
    text = head + b" " + secret + tail + b" " + secret
    redactor = Redactor({"OTHER": SECRETS["plain"]}, piece=piece)
    assert redactor.holds(io.BytesIO(text))
    redacted = copied(redactor, text)
    assert redacted == text.replace(secret, b"[secret OTHER]")
    assert copied(Redactor({}, piece=piece), text) == text


NO_SECRETS = [
    b"hunter 2! hunter\n2! Hunter2! hunter2 hunter2?",
    b"plain secret 0123; plain-secret-0123; plainsecret-0123; plain\nsecret\n0123",
    b"correct horse, battery",
    b"[104, 117, 110, 116, 101, 114] 68756e746572 and 32 more, 33 of them",
    b"68 zoo 75 you 6e my 74 sun 65 jury 72 him 32 hits 21",
    b"104 words, 117 lines, 110 of them at 116, 101 at 114, 50 as well as 33",
    # As far apart as that, it is chance.
    (b" " * 1000).join((b"68", b"75", b"6e", b"74", b"65", b"72", b"32", b"21")),
    b"aHVudGVyMg== cGxhaW4gc2VjcmV0IDAxMjM= MIIEvAIBADANBgkqhkiG9w0BAQEFAASCBKYwggSi",
    bytes(range(256)) * 20,
    json.dumps({"a": ['"', "\\", "\n", "ü", "漢"], "b": "%41 &#65; \\u0041"}).encode(),
]


@pytest.mark.parametrize("text", NO_SECRETS)
def test_a_text_without_secrets_is_kept_to_the_byte(text: bytes) -> None:
    for piece in (50, None):
        redactor = Redactor(SECRETS, piece=piece)
        assert copied(redactor, text) == text
        assert not redactor.holds(io.BytesIO(text))


@given(st.lists(st.sampled_from(sorted(CODINGS)), max_size=6), st.text(max_size=40))
def test_what_is_coded_otherwise_is_kept_to_the_byte(codings: list[str], text: str) -> None:
    safe = text.encode("utf-8", "replace").decode()
    kept = b" ".join(CODINGS[coding](safe) for coding in codings)
    assert Redactor(SECRETS).content(kept) == kept


def test_a_secret_is_found_without_the_spaces_around_it() -> None:
    assert Redactor({"KEY": "  plainsecret0123\n"}).text("=plainsecret0123;") == "=[secret KEY];"
    # Too little would be left of this one to tell it from other words.
    assert Redactor({"KEY": "  short7 "}).text("a short7,  short7 ") == "a short7,[secret KEY]"


def test_a_long_secret_is_found_whatever_lines_stand_in_it() -> None:
    key = "sk-ant-api03-Qm9vdHN0cmFwcGVkX2tleQ"
    redactor = Redactor({"KEY": key})
    assert redactor.text(f"{key[:20]}\n  12\t{key[20:]}!") == "[secret KEY]!"
    assert redactor.text(f"{key[:9]}\\n+{key[9:20]}\",\n  '{key[20:]}!") == "[secret KEY]!"
    for escape in ("\x1b", "\\u001b", "\\\\033"):
        colored = f"{escape}[1;31m{key[:6]}{escape}[m{escape}[K{key[6:]}!"
        assert redactor.text(colored) == f"{escape}[1;31m[secret KEY]!"


def test_a_short_secret_of_several_lines_is_found_in_a_diff() -> None:
    redactor = Redactor({"KEY": "user:one\nother:two"})
    for end in ("\n", "\r\n", "\\n", "\n+", "\n-  ", "\\n> ", "\\r\\n\t"):
        assert redactor.text(f"+user:one{end}other:two\n") == "+[secret KEY]\n", end


def test_secrets_close_to_each_other_are_all_found() -> None:
    secret = "sk-ant-api03-Qm9vdHN0cmFwcGVkX2tleQ"
    text = CODINGS["numbers in lines"](secret) * 101
    redacted = Redactor({"KEY": secret}).content(text)
    assert redacted.count(b"[secret KEY]") == 101
    assert not any(character.isdigit() for character in redacted.decode())


WRITTEN = [
    r"""a'\''b"c$d\e f""",
    r"""a'"'"'b"c$d\e f""",
    r"""a'b\"c\$d\\e f""",
    r"""a\'b\"c\$d\\e\ f""",
    r"""a&#39;b&#34;c$d\e f""",
    r"""a&apos;b&quot;c$d&#x5C;e f""",
    r"""a%27b%22c%24d%5ce+f""",
    r"""a%2527b%2522c$d%255Ce%2520f""",
    r"""a\u0027b\u0022c$d\u005Ce f""",
    r"""a\x27b\x22c$d\x5ce\x20f""",
    r"""a\047b\042c$d\134e\040f""",
    r"""a\u{27}b\u{22}c$d\u{5c}e f""",
]


@pytest.mark.parametrize("written", WRITTEN)
def test_whatever_is_escaped_in_a_secret_it_is_found(written: str) -> None:
    redactor = Redactor({"KEY": "a'b\"c$d\\e f"})
    for depth in range(4):
        assert redactor.text(f"<{written}>") == "<[secret KEY]>", depth
        written = json.dumps(written)[1:-1]


@pytest.mark.parametrize("coding", ["\\u", "\\\\u", "\\\\x", "base64", "percent", "entities"])
def test_no_half_of_an_escape_is_left(coding: str) -> None:
    text = CODINGS[coding]("plainsecret0123")
    redacted = Redactor({"KEY": "plainsecret0123"}).content(b'{"a": "' + text + b'"}')
    assert json.loads(redacted)["a"].rstrip("=;") == "[secret KEY]"


def test_a_string_ends_after_the_dump_in_it() -> None:
    for dump in (xxd, hexdump):
        kept = json.dumps({"a": dump(b"plainsecret0123").decode().rstrip(), "b": 1}).encode()
        redacted = json.loads(Redactor({"KEY": "plainsecret0123"}).content(kept))
        assert redacted["b"] == 1
        assert redacted["a"].splitlines()[0].endswith(" [secret KEY]")


@pytest.mark.parametrize("piece", [1, 1000])
def test_an_escape_before_a_secret_is_taken_with_it(piece: int) -> None:
    redactor = Redactor({"KEY": "nothing-secret"}, piece=piece)
    # Long enough to be read on while the first of it is written.
    rest = b"." * 1500
    for before, kept in (
        # The end of a line, and not the first letter of the secret, as it seems.
        (b"\\", b""),
        (b"\\\\", b"\\\\"),
        (b"\\\\\\", b"\\\\"),
        (b"\\u006", b""),
    ):
        text = rest + before + b"nothing-secret" + rest
        assert copied(redactor, text) == rest + kept + b"[secret KEY]" + rest, before


def test_characters_beside_a_dump_do_not_show_what_was_in_it() -> None:
    for dump in (xxd, hexdump):
        for before in range(16):
            for kept in (
                dump(b"." * before + b"hunter2!"),
                string(dump(b"." * before + b"hunter2!")),
            ):
                redacted = Redactor({"KEY": "hunter2!"}).content(kept)
                assert not any(part in redacted for part in (b"hun", b"nte", b"er2", b"2!")), (
                    redacted
                )


def test_a_file_that_is_cut_is_not_cut_inside_of_a_secret() -> None:
    text = b"x" * 90 + b"plainsecret0123"
    for most in range(91, 105):
        redactor = Redactor({"KEY": "plainsecret0123"})
        assert copied(redactor, text, most) == b"x" * 90 + b"[secret KEY]"
    assert copied(Redactor({"KEY": "plainsecret0123"}, piece=10), text, 90) == b"x" * 90
    assert copied(Redactor({}), text, 90) == b"x" * 90


def test_of_secrets_that_overlap_nothing_is_left() -> None:
    secrets = {"ONE": "abcdefgh1234", "TWO": "1234ijklmnop", "THREE": "abcdefgh"}
    for piece in (1, 5, 1000):
        redactor = Redactor(secrets, piece=piece)
        assert copied(redactor, b"<abcdefgh1234ijklmnop>") == b"<[secret ONE]>"
        assert copied(redactor, b"<abcdefgh><abcdefgh1234>") == b"<[secret THREE]><[secret ONE]>"


def test_names_that_are_no_text_are_kept() -> None:
    name = os.fsdecode(b"caf\xe9-\xff")
    assert Redactor({"KEY": "plainsecret0123"}).text(name) == name
    # Nor is a variable always text.
    secret = os.fsdecode(b"caf\xe9-secret")
    assert Redactor({"KEY": secret}).text(f"a {secret}") == "a [secret KEY]"


class Endless:
    """A file that is made while it is read."""

    def __init__(self, size: int, end: bytes) -> None:
        self._left = size
        self._end = end

    def read(self, most: int) -> bytes:
        if self._left <= 0:
            end, self._end = self._end, b""
            return end
        size = min(most, self._left)
        self._left -= size
        return (b'{"text": "nothing to see", "number": 12345}\n' * (size // 44 + 1))[:size]


def test_files_of_any_size_take_little_memory() -> None:
    redactor = Redactor({"KEY": PEM})
    text = PEM.encode().hex().encode()
    tracemalloc.start()
    try:
        assert redactor.holds(Endless(20 << 20, text))  # type: ignore[arg-type]
        with open(os.devnull, "wb") as target:
            redactor.copy(Endless(20 << 20, text), target, 1 << 30)  # type: ignore[arg-type]
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 4 << 20
