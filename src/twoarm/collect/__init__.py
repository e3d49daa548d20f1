"""Other programs' files to run records: `programs` reads them, this settles what they come to.

options  what to collect and how, and whether that makes sense
arms     which arm an attempt belongs to; never guessed
settle   from an attempt to a record: outcome, counts and cost
spool    records on their way to be sorted, so that memory stays flat
gather   all of it, in one function
output   whether the file to be written is one of those that are read
summary  what was found, what is missing, what failed and why; `uptake_summary` counts uses
"""
