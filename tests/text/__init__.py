"""Text that people read."""
