"""Command line, REST API and exports."""
