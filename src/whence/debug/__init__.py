"""Traces, replay, culprits, mining, explaining and diagnose."""
