"""What other programs write."""
