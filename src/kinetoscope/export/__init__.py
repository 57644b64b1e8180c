"""A trace, with what was found in it, as a file for other programs."""
