"""When code fails: the record that made it fail (guard), and going on without it (quarantine). Newt, section 4."""
