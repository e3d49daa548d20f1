"""From lines of a file to columns."""
