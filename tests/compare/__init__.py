"""From runs to one decision."""
