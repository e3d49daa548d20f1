"""What a comparison comes to.

promote           whether the candidate may be promoted
caveats           what the reader must know
analysis          everything that was found, as plain data
plan_file         a plan, as plain data
calibration_file  a calibration, as plain data
"""
