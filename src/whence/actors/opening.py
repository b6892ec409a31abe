"""Finds the graph of actors behind a product again, in any process."""

from __future__ import annotations

from whence.actors.files import Files
from whence.actors.flow import ActorFlow
from whence.actors.products import KIND
from whence.actors.registry import Registry, is_id
from whence.model import StoreError
from whence.store.producers import Product


def open_flow(product: Product, root: str | None = None) -> ActorFlow:
    """`root`: where the actors of this session are kept, in case the whole store was moved since."""
    kept, _, actor = product.run.rpartition("#")
    for place in (kept, *(() if root is None else (root,))):
        if is_id(actor) and place:
            files = Files(place)
            if files.read("registry", f"{actor}.json") is not None:
                return ActorFlow(files, Registry.load(files), [actor], place)
    raise StoreError(
        f"The {KIND} that made this are not found: there is nothing of the actor {actor} in {kept or root}. "
        "Was the store moved or removed?"
    )
