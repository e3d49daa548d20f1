"""What a run did, from the files it left: for a page or a terminal, and never for a figure.

entry       events and what is kept of them, however many there are
streams     the events of programs that write a line for each
documents   the events of programs that write one document
view        a run with everything around it: prompt, events, logs, and why it counts as it does
"""
