"""Results over time: one small file for each, series that are never joined, and alarms.

entry      from a report to the file that is kept, and back
same_runs  whether two results are about the same runs
alarms     whether the effect of a change is still what it was
overview   every series of a folder
"""
