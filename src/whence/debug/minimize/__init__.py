"""The smallest part of the input on which something still fails."""
