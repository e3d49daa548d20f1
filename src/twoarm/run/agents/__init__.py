"""The agents that come with twoarm, one file each; `agent.py` is what they have in common."""
