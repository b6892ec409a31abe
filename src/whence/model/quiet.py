QUIET = "whence-quiet"
"""The job tag of work that is not the user's own: a trace's queries, or what happens inside a call that is one run
already. The watcher leaves it out of the catalogue."""

FACTS = "whence-facts"
"""The directory of what SQL capture writes down; a query that reads it reads nothing of its own."""
