"""An Analysis as text; nothing is computed here but the layout."""
