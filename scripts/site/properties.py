"""Tells the API pages that what `@once` decorates is a property: it is computed at the first use and kept."""

from __future__ import annotations

from typing import Any

import griffe


class Properties(griffe.Extension):
    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        for name, member in list(cls.members.items()):
            if not isinstance(member, griffe.Function):
                continue
            if not any(str(decorator.value) == "once" for decorator in member.decorators):
                continue
            told = griffe.Attribute(
                name,
                lineno=member.lineno,
                endlineno=member.endlineno,
                annotation=member.returns,
                docstring=member.docstring,
                parent=cls,
            )
            told.labels.add("property")
            cls.members[name] = told
