"""What explains a result, beside the gates: whether the change was used, and what differed.

uptake    how many runs and tasks used the change, in both arms
tools     which tools were called more and less
caveats   what the reader must know about that
"""
