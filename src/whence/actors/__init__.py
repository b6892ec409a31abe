"""The generic capture API for any code (Newt)."""
