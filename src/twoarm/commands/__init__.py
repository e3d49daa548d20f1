"""The command line: `cli` is where it starts, and every command is a file of its name."""
