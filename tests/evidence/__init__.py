"""What the runs can support."""
