"""Doubts: what a record could not know, by code; the code stays in the `tags` of the record."""

# Before the count: "...: 3 runs, first PATH".
DOUBTS = {
    "usage_unknown": "steps were taken but no usage is told, so token counts are null, not 0",
    "cost_unknown": "work was done at a cost of 0, so the cost is null, not 0",
    "cost_computed": "no cost in the source, computed from the price table",
    "no_price": "no cost in the source, and the price table lacks the model or a price it needs",
    "spend_incomplete": "ended without a final count, so tokens and cost are a lower bound",
    "subagents_left_out": "sub-agents whose spend is not in the source, "
    "so tokens and cost are too low",
    "reasoning_left_out": "reasoning tokens may be missing from the output count of opencode",
    "cache_write_inside_input": "cache writes counted as input, "
    "as no trajectory is there to split them",
    "cost_charges_reasoning_twice": "the cost of opencode 1.3.15 and older "
    "charges reasoning tokens twice",
    "sources_disagree": "events and export disagree, and the export is used",
    "duration_wall_clock": "the wall clock of run.json is the duration, with start-up",
    "duration_whole_trial": "the whole trial is the duration, as the agent's own is not known",
    "duration_lower_bound": "the time from first to last event is the duration, a lower bound",
    "passed_despite_failure": "passed although the agent failed, and counted as failed",
    "limit_reached": "passed although a limit was reached, and counted as passed",
    "other_models_left_out": "other models such as graders are in the log, "
    "and only the evaluated one is counted",
    "total_disagrees": "the total of tokens does not equal its parts",
    "scorer_chosen": "several scores, of which the headline one tells success; see --scorer",
    "log_unfinished": "the log did not finish, so runs may be missing from it",
    "partial_reward": "a reward above 0 but below the threshold, counted as failed",
    "retried": "retried by the harness after an error",
    "no_start_time": "no start time, so numbered by path",
}
