"""Before the runs."""
