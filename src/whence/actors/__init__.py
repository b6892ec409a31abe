"""The generic capture API for any code (Newt, table 1).

An *actor* is anything that turns input records into output records: a job, a task, a function. It registers, says which
output came from which input, and commits. Flow links say who feeds whom; containment says who runs inside whom.

>>> from whence.actors import ActorStore
>>> import tempfile
>>> store = ActorStore(tempfile.mkdtemp())
>>> split, count = store.register("split", kind="map"), store.register("count", kind="reduce")
>>> store.flow_link(split, count)
>>> for line, words in (("line 1", ["a", "b"]), ("line 2", ["b"])):
...     for n, word in enumerate(words):
...         _ = split.capture(line, f"{line} {word}"), count.capture(f"{line} {word}", word)
>>> split.commit(), count.commit()
(None, None)
>>> sorted(store.trace(["b"], root=count).records)
['line 1', 'line 2']
"""

from whence.actors.read import ActorLog, Multiplicity
from whence.actors.records import Location, RecordSet, UnidentifiableRecord, hash_record
from whence.actors.registry import ActorSpec, LogDamaged
from whence.actors.replay import CannotReplay, Replayed, ReplayPlan, ReplayStep, exclude_plan, replay_plan
from whence.actors.store import ActorStore, Failure, UnknownActor
from whence.actors.trace import NotCommitted, TracingDataflow, TracingTable
from whence.actors.worker import Actor, Filter

__all__ = [
    "Actor",
    "ActorLog",
    "ActorSpec",
    "ActorStore",
    "CannotReplay",
    "Failure",
    "Filter",
    "Location",
    "LogDamaged",
    "Multiplicity",
    "NotCommitted",
    "RecordSet",
    "ReplayPlan",
    "ReplayStep",
    "Replayed",
    "TracingDataflow",
    "TracingTable",
    "UnidentifiableRecord",
    "UnknownActor",
    "exclude_plan",
    "hash_record",
    "replay_plan",
]
