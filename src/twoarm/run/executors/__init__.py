"""Executors, one file each; `executor.py` is what they have in common."""
