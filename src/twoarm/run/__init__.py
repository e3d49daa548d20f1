"""From a suite to published runs: `loop` is the whole program.

suite       tasks, arms and the agent that runs them; `suite_file` reads them
first_suite what `twoarm init` writes, from the files of `first/`; `demo/` is the demo's suite
freeze      what a suite means today, digested; `tree` has its repositories and folders
schedule    every trial in its order; `parts` is how it grows, `changes` what it refuses
reopen      a run folder that was begun earlier, and what its suite asks for now
setting     what a suite means on this machine; `place` is where workspaces are
isolation   what holds an agent back here; `sealing` makes it, `shown` is what it lets through,
            `engine` is podman and docker
prepare     what must be ready before the first trial; `untouched` is what acceptance finds there,
            `rehearse` is the dry run, and `abandoned` clears what one leaves that was killed
session     a run from its suite to its runs: everything that stands around the loop;
            `whole_trees` looks whether a trial has changed what others start from
loop        start what is next, settle what has ended; `budget` says whether there is money
job_maker   from a trial to its job; `jobs` is what a supervisor has to know
executor    where attempts run; `executors/` has each kind
supervisor/ one attempt in a process of its own: `main`, and `processes`, which kills
regrade     runs graded again, from what they left: `regrading` does it, `graded` is the folder that
            they are from
grader      what grades the runs of a task
settle      what became of an attempt, and whose failure it was
ledger      the run folder
report      a line for every trial, and the receipt
studies     run folders that are scored; `reported` has who has seen their runs judged
display     what is shown while trials run
"""
