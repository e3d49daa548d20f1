"""Runs: from lines of a file, or rows of a frame, to columns.

record         what one line holds; types and bounds are defined here, once
metric         what is measured of a run, and which way is better
runs           many runs, as columns
arrays         sums and medians of columns, task by task
stream         bytes to lines
study          what a run folder was made for
runfile        lines to runs; the position of every bad line
badline        what is wrong with a line
repeated_keys  keys that a line has twice
foreign        files of other programs, recognized and named
frame          frames of pandas, polars and Arrow
tool_columns   which tools were called how often
check_columns  the score of each run, and its checks by name
tag_columns    the tags of the task of each run
family_columns the family that each run says its task is of
exit_codes     those with a meaning of their own
endings        what exit codes say, and why a run failed
"""
