"""How long the evidence takes beside the reading of a run file: `evidence.py FILE`."""

import resource
import sys
import time
from typing import Any

import numpy as np
from scipy import special

import twoarm


def main() -> int:
    # Imports are not what is measured.
    assert np.__version__
    assert special.stdtrit(5, 0.975)
    scoring = sys.modules["twoarm.score"]
    for name in ("read", "set_side_by_side", "weigh"):
        original = getattr(scoring, name)

        def timed(*given: Any, original: Any = original, name: str = name, **named: Any) -> Any:
            clock, cpu = time.perf_counter(), time.process_time()
            result = original(*given, **named)
            wall, spent = time.perf_counter() - clock, time.process_time() - cpu
            print(f"{name}: {wall:.2f} s, {spent:.2f} s of processor time")
            return result

        setattr(scoring, name, timed)
    twoarm.score(sys.argv[1])
    print(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
