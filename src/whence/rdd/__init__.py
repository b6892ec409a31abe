"""Lineage of RDDs (Titian)."""
