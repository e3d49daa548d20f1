"""Tables: CSV, TSV, JSONL, JSON and Parquet, a row per run."""
