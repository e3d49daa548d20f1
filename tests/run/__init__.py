"""From a suite to published runs."""
