"""Two arms, compared with each other: from runs to one decision.

screen      which runs count; every excluded run keeps its reason
chosen      which runs were asked for: of some parts, of some tasks
same_checks whether all runs of a task were put to the same checks
trials      what became of every planned run
graders     runs of a task that were graded in two ways
families    which tasks belong together
summarize   each arm on its own
pair        same task, same repeat, two arms; deltas
tasks       each task in both arms
decide      the gates to one decision; adequacy of the repeats
comparison  all of these together
check       every problem in run files, without scoring them
"""
