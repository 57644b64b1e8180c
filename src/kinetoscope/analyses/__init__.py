"""Trace and links to frozen results: one module for each part of the report."""
