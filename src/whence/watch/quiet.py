QUIET = "whence-quiet"
"""The job tag of what happens inside a wrapped call: the listener leaves it out, since the call itself is one run."""
