"""What single runs did, for a page or a terminal, and never for a figure.

view   a run with everything around it: prompt, events, logs, and why it counts as it does
page   one run as a page; `text` in a terminal; `index` lists the pages
pages  the pages of a report, within their limits
"""
