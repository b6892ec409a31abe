"""Spark's private classes: what differs between releases of Spark differs in this room alone."""
