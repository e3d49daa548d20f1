"""From a suite to published runs: `loop.py` is the whole program."""
