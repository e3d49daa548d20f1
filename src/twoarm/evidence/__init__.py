"""What the runs can support beyond the point estimates: intervals, tests, stability, audits.

results     what the evidence says, as plain data; `losses` is its part about what is missing
cells       the runs and pairs of each metric, grouped by task
interval    how ends are made, and when an interval is withheld
kernel      distributions
resample    tasks drawn again, once for every metric; the medians of the arms
means       intervals of means, ratios and success
medians     intervals of medians, exact
relabel     the test: labels and signs exchanged, for all metrics at once; simultaneous intervals
looks       the same test at planned looks
deltas      mean, median and ratio of one metric, with every interval
arm_medians the difference that each gate looks at
stability   the decision when tasks and repeats are drawn again, and what hangs on single tasks
grade       the verdict on the evidence, and the margin rule
harm        what stands against a promotion: success, broken tasks, what people pay for
exclusions  whether excluded runs could change the decision
solved      whether a gain is there among solved runs
nodes       whether machines of a cluster differ, and which blocks ran on more than one
design      what the records say about how the runs were made
repeats     pass@k and pass^k
scores      mean scores, and which checks differ; `score_parts` is that as plain data
shrink      what single tasks show, moved toward what all of them show
single_tasks which tasks the candidate helps; `single_parts` is that as plain data
by_tag      the change by tag of task; `tag_parts` is that as plain data
per_solved  dollars and minutes per solved task, failed runs included
pilot       what the runs say about those to come: how much runs and tasks vary
odds        success rates of tasks, and what a change of the odds does to them
power       how likely a change is to be clear, before the runs are made
next_runs   the design that would show a change that matters
weigh       all of it
several     several candidates against one baseline
caveats     what the reader must know about it
"""
