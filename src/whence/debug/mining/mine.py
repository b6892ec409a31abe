"""One door to mining for every kind of lineage: each front end gives Samples, `mine_samples` judges them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from whence.debug.attached import Attached
from whence.debug.mining.mined import Mined, Sample, mine_samples
from whence.spark.sessions import is_frame


def mine(session: Attached, root: Any, bad: Any = None, good: Any = ()) -> Mined:
    """root: a DataFrame, an RDD with lineage, an actor (handle, path or name), or Samples of any other lineage."""
    if is_frame(root):
        from whence.debug.mining.frames import mine_frame

        return mine_frame(session, root, bad, good)
    if hasattr(root, "multiplicities"):
        from whence.debug.mining.rdd import mine_rdd

        return mine_rdd(root, bad, good)
    if isinstance(root, Iterable) and not isinstance(root, str):
        samples = list(root)
        if samples and all(isinstance(s, Sample) for s in samples):
            return mine_samples(samples)
    from whence.debug.mining.actors import mine_actors

    return mine_actors(session.actors, root, bad, good)
