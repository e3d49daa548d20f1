"""Any command: its arguments are the suite's, and its counts are what it left."""
