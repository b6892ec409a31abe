"""How much each witness moved a number of the result."""
