QUIET = "whence-quiet"
"""The job tag of work that is not the user's own: a trace's queries, or what happens inside a call that is one run
already. The watcher leaves it out of the catalogue."""

FACTS = "whence-facts"
"""The directory of what SQL capture writes down; a query that reads it reads nothing of its own."""

FACT_COLUMN = "whence_fact_"
"""How the columns of what SQL capture keeps in Spark's cache are called, before their number."""
