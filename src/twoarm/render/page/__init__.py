"""The parts of the page: charts, tables, style and script."""
