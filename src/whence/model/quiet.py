QUIET = "whence-quiet"
"""The job tag of work that is not the user's own: a trace's queries, or what happens inside a call that is one run
already. The watcher leaves it out of the catalogue."""
