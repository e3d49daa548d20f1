"""Files that twoarm writes, moves and removes."""
