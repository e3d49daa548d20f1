"""What a kernel refuses to do for whoever is in a sandbox: a filter of its calls.

Without it, an agent could make a user namespace of its own, be root in that, and reach from there
what belongs to the same user outside; and keys in the kernel would go from trial to trial.
Standard library only, for the supervisor.
"""

import os

_LOAD, _EQUAL, _HAS, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_PERMISSION, _NO_CALL = 1, 38
# Where the number of a call, the kind of machine and the first argument are.
_NUMBER, _MACHINE, _FIRST = 0, 4, 16
_NEW_USER = 0x10000000
# Calls of another kind of program on the same machine.
_OTHER_KIND = 0x40000000
_CLONE3 = 435
# Of each machine: what the kernel calls it; `unshare` and `clone`; the calls of its keyring.
_MACHINES = {
    "x86_64": (0xC000003E, (272, 56), (248, 249, 250)),
    "aarch64": (0xC00000B7, (97, 220), (217, 218, 219)),
}


def call_filter() -> bytes:
    """The filter for this machine; nothing where its calls are not known."""
    known = _MACHINES.get(os.uname().machine)
    if known is None:
        return b""
    machine, makers, keyring = known
    # Each step: what to do, where to go if so and if not, by name, and a number.
    steps: list[tuple[int, str, str, int]] = [
        (_LOAD, "", "", _MACHINE),
        (_EQUAL, "", "no call", machine),
        (_LOAD, "", "", _NUMBER),
        (_HAS, "no call", "", _OTHER_KIND),
        # Its flags are in memory, where no filter can look; programs then use the older call.
        (_EQUAL, "no call", "", _CLONE3),
        *((_EQUAL, "no permission", "", number) for number in keyring),
        *((_EQUAL, "flags", "", number) for number in makers),
        (_RETURN, "", "", _ALLOW),
    ]
    ends = {
        "flags": [(_LOAD, "", "", _FIRST), (_HAS, "no permission", "", _NEW_USER),
                  (_RETURN, "", "", _ALLOW)],
        "no permission": [(_RETURN, "", "", _REFUSE | _PERMISSION)],
        "no call": [(_RETURN, "", "", _REFUSE | _NO_CALL)],
    }  # fmt: skip
    places = {}
    for name, end in ends.items():
        places[name] = len(steps)
        steps += end
    return b"".join(
        what.to_bytes(2, "little")
        + bytes((_far(places, so, at), _far(places, else_, at)))
        + number.to_bytes(4, "little")
        for at, (what, so, else_, number) in enumerate(steps)
    )


def _far(places: dict[str, int], name: str, at: int) -> int:
    """How many steps to leave out to get to a place; none to go on."""
    return places[name] - at - 1 if name else 0
