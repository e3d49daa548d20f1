"""What explains a result, besides the gates: whether the change was used, and what differed.

uptake    how many runs and tasks used the change, in both arms
tools     which tools were called more and less
diagnose  what moved with a failed gate
caveats   what the reader must know about that
"""
