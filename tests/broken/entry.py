"""What an entry of the tables is made of."""

from typing import NamedTuple


class Broken(NamedTuple):
    """A rule, where its code is, the code, code that breaks it, and the tests that go red."""

    rule: str
    # The function, method, class or name of a module, with as much before it as makes it unique:
    # `Loop._failed`. What is no Python has a file below src/twoarm, with a slash in its name.
    where: str
    # Compared token by token: line breaks, parentheses and the commas before them do not matter.
    kept: str
    broken: str
    # A file of tests, or one test of it.
    tests: str
