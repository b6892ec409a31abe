"""Array workflows (SubZero). Not built yet."""
