"""Where runs, datasets and associations are kept."""
