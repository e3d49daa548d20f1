"""What looks after one attempt, in a process of its own.

Standard library alone: it starts for every attempt, and starting is most of what it costs.

main       from a job to its outcome
processes  how programs are started, limited and killed
isolation  what a step runs in: the open, a sandbox, a container; `seccomp` filters its calls
grading    the acceptance commands, and the score that they may leave
scratch    the folders of an attempt: the box is the agent's, the rest is ours
program    the file of a program, and why it cannot be started; how git and cp are called
manifest   what is in a tree, and what has changed
patch      what an agent changed, by content
put_back   the same, from its patches back into a workspace
redact     secrets are redacted; `secret_finder` finds them, `secret_forms` knows how programs
           code them
"""
