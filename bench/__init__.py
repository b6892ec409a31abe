"""Measurements. Each module is one command, `python -m bench.<name>`; CONTRIBUTING.md says how to run them."""
