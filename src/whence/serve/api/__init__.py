"""The answers over HTTP: FastAPI routes, one file for each family, and the gate in front of them."""

from whence.serve.api.app import create_app

__all__ = ["create_app"]
