"""On the PYTHONPATH of a process whose page no browser opens: `scriptless` is its environment.

To bundle Vega takes a second and a half, and a new process has nothing cached.
"""

import os
from pathlib import Path


def scriptless(**changed: str) -> dict[str, str]:
    """This environment, with changes, in which a page is made without Vega."""
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parent), **changed}
