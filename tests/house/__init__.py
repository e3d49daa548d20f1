"""The house itself: documents, file lengths, rules to break, fuzzers."""
