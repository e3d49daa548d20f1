"""What the runs can support beyond the point estimates: intervals, tests, stability, audits.

cells       the pairs and runs of each metric, grouped by task
interval    the result type, and when an interval is withheld
kernel      exact distributions of sums
resample    tasks drawn again, once for every metric; the medians of the arms
means       intervals of means, ratios and success
medians     intervals of medians, exact
permute     tests by relabelling, and Holm
deltas      mean, median and ratio of one metric, with every interval and test
gates       the difference that each gate looks at
stability   the decision when tasks and repeats are drawn again, or a task is left out
influence   what hangs on single tasks
grade       the verdict on the evidence, and the margin rule
exclusions  whether excluded runs could change the decision
design      what the records say about how the runs were made
repeats     pass@k, pass^k, and the cost of a solved task
weigh       all of it
caveats     what the reader must know about it
"""
