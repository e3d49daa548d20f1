"""What explains a result, besides the gates: whether the change was used, what differed, and why
runs failed.

uptake    how many runs and tasks used the change, in both arms
where_used
          what the change did to the runs that used it
tools     which tools were called more and less
diagnose  what moved with a failed gate
failures  why runs failed, and whether limits decide success
caveats   what the reader must know about that
"""
