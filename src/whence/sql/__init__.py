"""Lineage of DataFrames and SQL."""
