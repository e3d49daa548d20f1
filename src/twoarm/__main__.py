"""`python -m twoarm`."""

import sys

from twoarm.cli import main

sys.exit(main())
