"""mini-SWE-agent."""
