"""An analysis as text; nothing is computed here but the layout.

report      an analysis that can be shown; `several` and `candidates` show several of them
summary     the ten-second summary that every format begins with
tables      the other tables as data; `evidence`, `scores`, `tools` and `uptake` have more of them
text        the terminal; `markdown`, `html`, `notebook`, `github` and `junit` the other formats
chart_points
            what the charts of the page draw; `flat_rows` are rows for a frame
sheet       a short report as data: `plan` and `calibrate` are two
"""
