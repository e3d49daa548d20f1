"""The exit codes of every command."""

DONE = 0
BAD = 2
INTERRUPTED = 130
# The exit code of each verdict, with --exit-code.
OF_VERDICT = {"promote": 0, "do not promote": 1, "not enough data": 3}

HELP = """\
exit codes:
  0  done; with --exit-code: promote
  1  with --exit-code: do not promote
  2  bad input, bad usage, or an unexpected error
  3  with --exit-code: not enough data to say
"""
# What `twoarm run` adds to it.
RUN_HELP = f"""\
{HELP}\
     also: the run was stopped before its end, or an arm has no run yet
{INTERRUPTED}  the run was killed, or not started after all
"""
