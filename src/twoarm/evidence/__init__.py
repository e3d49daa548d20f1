"""What the runs can support beyond the point estimates: intervals, tests, stability, audits.

cells       the pairs and runs of each metric, grouped by task
plain       the numerical kernel for a handful of runs
vector      the same for more, with numpy and scipy
interval    the result type, and when an interval is withheld
means       intervals of means, ratios and success
medians     intervals of medians, exact
resample    tasks drawn again: bootstrap, arm medians, stability
permute     tests by relabelling, and Holm
grade       the verdict on the evidence, and the margin rule
exclusions  whether excluded runs could change the decision
design      what the records say about how the runs were made
repeats     pass@k, pass^k, and the cost of a solved task
weigh       all of it
"""
