"""Agents, suites and run folders that mean harm: `make attacks`."""
