"""Whether the change was used, and what differed."""
