"""`python -m twoarm`, and the command `twoarm`."""

import sys

from twoarm._version import __version__


def main() -> int:
    """Run one command and return its exit code."""
    if sys.argv[1:] == ["--version"] and sys.stdout is not None:
        # Imports take nearly all of the time of so small a question.
        try:
            sys.stdout.write(f"twoarm {__version__}\n")
            sys.stdout.flush()
        except OSError:
            # Said again where it is told what could not be written.
            pass
        else:
            return 0
    from twoarm.commands import cli

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
