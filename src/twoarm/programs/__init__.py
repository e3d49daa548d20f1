"""Other programs: one folder each.

    record   what a run of it was: what it writes, as a record
    events   what it did, for the page of a run
    launch   how it is started, and what its running costs

A program has as many of them as make sense for it. What several share lies beside the folders:

program     which programs are installed, and their parts
format      the interface of a format, and the attempt it gives
registry    the formats, and which of them the files under a path are of
folder      what may be read under a path, and its limits
run_folder  what the folders of agent programs share, with the sidecar `run.json`
failure     who failed: by what a program said, and by how its run ended
caveats     what a record could not know, by code
tokens, prices, moment, version, value
            counts, costs, times, versions and other values as programs write them
scores      grades of other programs, as a score and as checks
shell       the commands inside a shell command; `script` reads the shell's language
uptake      what an agent called, and which of it is a use of the change
event       what a run did, event by event, and what reading that takes; `entry` is what is kept
agent       the interface of an agent that can be run; `settings` is what a suite says of it,
            `installed`, `options` and `metered` are what agents share
"""
