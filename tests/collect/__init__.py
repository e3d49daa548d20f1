"""From other programs' files to records."""
