"""Who asks, and what they may see: callers, policies, the access file, OIDC."""
