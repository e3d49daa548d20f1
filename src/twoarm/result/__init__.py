"""What a comparison comes to.

promote           whether the candidate may be promoted
findings          what the evidence says, in words
caveats           what the reader must know
advice            what to do next; `more_runs` says where more of them would help, `shortfall` what
                  is lacking before a promotion
chosen_tasks      that only some tasks were asked for
looked            runs that were made after a report on the others
step              one thing to do, with its code
tested            what was run, and when
analysis          everything that was found, as plain data
plan_file         a plan, as plain data; `plan_advice` says what to run by it
calibration_file  a calibration, as plain data
"""
