"""`python -m twoarm`."""

import sys

from twoarm.commands.cli import main

sys.exit(main())
