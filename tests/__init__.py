"""Tests of twoarm, in folders by room."""

import os

# The products are small: on a busy machine the threads of one would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
