"""Who asks."""

from __future__ import annotations

from dataclasses import dataclass

READER, EDITOR, ADMIN = "reader", "editor", "admin"
ROLES = (READER, EDITOR, ADMIN)
"""Each may do what those before it may."""


@dataclass(frozen=True)
class Caller:
    name: str
    role: str
    is_local: bool = False
    """The one caller of a server without authentication, who has every right."""

    def may(self, role: str) -> bool:
        return self.role in ROLES and ROLES.index(self.role) >= ROLES.index(role)


LOCAL = Caller("local", ADMIN, is_local=True)
