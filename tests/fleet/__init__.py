"""Runs on a cluster of Ray."""
