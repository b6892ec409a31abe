"""Watches a Spark session: what it reads, writes, trains and streams (SAC)."""
