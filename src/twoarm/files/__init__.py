"""Files on their way in and out.

safe       writes, moves and removes where somebody may have laid links; nothing outside is touched
write      the outputs of a command: all written, then renamed one by one
interrupt  signals that wait while files are put in place
zstd       compressed files, whatever the Python
"""
