"""The version, where everybody can read it without a ring of imports."""

__version__ = "0.1.0"
