"""Finds the graph of actors behind a product again, in any process."""

from __future__ import annotations

from whence.actors.flow import ActorFlow
from whence.actors.products import KIND
from whence.actors.registry import Registry, is_id
from whence.model import StoreError
from whence.store import Files, files_at
from whence.store.producers import Product


def open_flow(product: Product, own: str | Files | None = None) -> ActorFlow:
    """`own`: where the actors of this session are kept, in case the whole store was moved since."""
    kept, _, actor = product.run.rpartition("#")
    mine = None if own is None else files_at(own)
    for place in (mine, kept):
        if is_id(actor) and place:
            files = files_at(place)
            if files.read("registry", f"{actor}.json") is not None:
                return ActorFlow(files, Registry.load(files), [actor], files.root)
    raise StoreError(
        f"The {KIND} that made this are not found: there is nothing of the actor {actor} in {kept or 'it'}. "
        "Was the store moved or removed?"
    )
