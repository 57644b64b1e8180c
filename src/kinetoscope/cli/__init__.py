"""The command line: one file a verb; `errors` is where every outcome becomes an exit status."""
