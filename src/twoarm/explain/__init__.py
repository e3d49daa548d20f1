"""What explains a result, beside the gates: whether the change was used at all.

uptake    how many runs and tasks used the change, in both arms
caveats   what the reader must know about that
"""
