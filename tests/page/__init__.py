"""The page, as a file and in a real browser."""
