"""Other programs' files to run records.

folder      what may be read under a path, and its limits
format      the interface of a format, and the attempt it gives
formats     which formats are installed, and which the files under a path are of
harbor, opencode, claude_code, codex, inspect_ai, gemini_cli, mini_swe_agent, table
            one format each, found through the entry point group `twoarm.formats`
opencode_shapes, opencode_log, codex_shapes
            what opencode and Codex write, and what the log of opencode says
run_folder  what the folders of agent programs share, with the sidecar `run.json`
failure     who failed: by what a program said, and by how its run ended
caveats     what a record could not know, by code
swe_bench   reports of success, for trajectories that do not know it
inspect_archive  the members of an `.eval` archive, within the limits
parquet     rows of a table, within the limits; `pages` finds what a file really unpacks to
shell       the commands inside a shell command
uptake      what an agent called, and which of it is a use of the change; `uptake_summary` counts it
arms        which arm an attempt belongs to; never guessed
prices      costs that the source lacks
spool       records on their way to be sorted, so that memory stays flat
settle      from an attempt to a record: outcome, counts and cost
wanted      what to collect and how, and whether that makes sense
gather      all of it, in one function
output      whether the file to be written is one of those that are read
summary     what was found, what is missing, what failed and why
"""
