"""Reports, byte for byte."""
