"""Text that people read: names made harmless, sentences with values in them, numbers.

escape         names from records are hostile until they have been through here
sentence       words with values behind them
number_format  figures as a report spells them
"""
