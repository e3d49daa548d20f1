"""The command line: `cli` is where it starts, and every command has a file of the same name."""
