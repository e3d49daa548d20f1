"""Caveats: what a record could not know, by code; the code stays in the `tags` of the record."""

from twoarm.runs.record import PASSED_DESPITE_FAILURE, UPTAKE_NOT_SHOWN

# Before the count: "...: 3 runs, first PATH".
CAVEATS = {
    "usage_unknown": "steps were taken but no usage was reported, so token counts are null, not 0",
    "cost_unknown": "work was done but the cost is 0, so the cost is null, not 0",
    "cost_computed": "no cost in the source; computed from the price table",
    "no_price": "no cost in the source, and the price table lacks the model or a price it needs",
    "spend_incomplete": "ended without a final count, so tokens and cost are a lower bound",
    "subagents_left_out": "sub-agents whose spend is not in the source, "
    "so tokens and cost are too low",
    "reasoning_left_out": "reasoning tokens may be missing from opencode's output count",
    "cache_write_inside_input": "cache writes counted as input, "
    "because there is no trajectory to split them by",
    "cost_charges_reasoning_twice": "opencode 1.3.15 and older charge reasoning tokens twice",
    "sources_disagree": "events and export disagree; the export is used",
    "duration_wall_clock": "the duration is the wall clock of run.json, which includes startup",
    "duration_whole_trial": "the duration is that of the whole trial; the agent's own is unknown",
    "duration_lower_bound": "the duration is the time from first to last event, a lower bound",
    PASSED_DESPITE_FAILURE: "passed although the agent failed; counted as failed",
    "limit_reached": "passed although a limit was reached; counted as passed",
    "other_models_left_out": "other models, such as graders, are in the log; "
    "only the evaluated one is counted",
    "total_disagrees": "the token total does not equal the sum of its parts",
    "scorer_chosen": "several scores; the headline one decides success (see --scorer)",
    "log_unfinished": "the log did not finish, so runs may be missing from it",
    "partial_reward": "a reward above 0 but below the threshold; counted as failed",
    "reward_off_scale": "a reward below 0 or above 1, which decides success and is no score",
    "retried": "retried by the harness after an error",
    "noise_in_output": "lines of the output are not events and were skipped",
    "no_event": "the output has no event of the agent in it, so nothing is known of what it did",
    "configuration_differs": "another model or version than in the first run of the arm",
    "thread_repeated": "a thread that an earlier run has as well, and no rollout to split its "
    "tokens by, so token counts are null",
    "usage_unread": "usage.json cannot be read, so its counts are null",
    "usage_key_unknown": "keys of usage.json that nobody reads",
    "usage_key_wrong": "keys of usage.json with values that are no such counts, so they are null",
    "output_unread": "the output cannot be read, so nothing but success and time is known",
    "not_read_again": "the files of the run cannot be read any more; what is known of it is "
    "from when it ended",
    UPTAKE_NOT_SHOWN: "the output does not show what --uptake asks for, "
    "so the count of uses is null, not 0",
    "no_start_time": "no start time, so numbered by path",
}
