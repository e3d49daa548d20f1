"""Before the runs: how many it takes, and how often a suite cries wolf.

plan          from a pilot to a number of runs and dollars
calibrate     who is named a winner among runs of one kind
planner       the designs that would show a change
trials        what drawn runs would come to, for what closed forms do not tell
calibration   trials without a difference
plan_options  what may be asked of a plan
"""
