"""Which conditions on columns set some rows apart from others."""
