"""How a record is named: by a key (int, str, bytes), by where it lies (Location), or, for anything else, by a hash.

Two records are the same when their names are equal; two locations meet when their byte ranges overlap. A key keeps its
type: 5 and "5" are two records.
"""

from __future__ import annotations

import datetime
import decimal
import hashlib
import itertools
import marshal
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from whence.model import WhenceError

WHOLE_FILE = 2**62


class Location(NamedTuple):
    """A byte range of a file (or of any stream that has a name). Without a length it reaches to the end."""

    file: str
    offset: int = 0
    length: int | None = None


Record: TypeAlias = Any  # what users hand in; identify() turns it into a Name
Name: TypeAlias = "int | str | bytes | Location"

INT, STR, BYTES, LOCATION = "int", "str", "bytes", "location"
DOMAINS = (INT, STR, BYTES, LOCATION)
_DOMAIN_OF_TYPE = {int: INT, str: STR, bytes: BYTES, Location: LOCATION}
_PLAIN = frozenset({int, str, bytes, float, bool, type(None)})
_REPR_IS_STABLE = (datetime.date, datetime.time, datetime.timedelta, decimal.Decimal, uuid.UUID)


class UnidentifiableRecord(WhenceError):
    def __init__(self, value: object) -> None:
        super().__init__(
            f"A record of type {type(value).__name__} has no stable identity across processes. "
            "Capture a key (int, str, bytes), a Location, or a value made of tuples, lists, dicts and plain values."
        )


def _canonical(value: Any) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, tuple | list):  # a Row is a tuple; marshal wants the exact type
        return (*(_canonical(v) for v in value),) if isinstance(value, tuple) else [_canonical(v) for v in value]
    if isinstance(value, dict):
        return ("dict", *sorted((hash_record(k), _canonical(v)) for k, v in value.items()))
    if isinstance(value, set | frozenset):
        return ("set", *sorted(hash_record(v) for v in value))
    if isinstance(value, _REPR_IS_STABLE):
        return (kind.__name__, repr(value))
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if kind.__module__ == "numpy":
        return _canonical(value.tolist())
    if isinstance(value, int | float | str):  # subclasses such as enums of str
        return _canonical(next(t for t in (int, float, str) if isinstance(value, t))(value))
    raise UnidentifiableRecord(value)


def hash_record(value: Record) -> bytes:
    """A 16-byte hash that is the same in every process and in every run."""
    if type(value) is not tuple or not _PLAIN.issuperset(map(type, value)):
        value = _canonical(value)
    # marshal's version 2 writes no back references, so equal values give equal bytes
    return hashlib.blake2b(marshal.dumps(value, 2), digest_size=16).digest()


def _hash_tuples(values: Sequence[tuple[Any, ...]]) -> list[bytes]:
    if not _PLAIN.issuperset(map(type, itertools.chain.from_iterable(values))):
        return [hash_record(v) for v in values]
    hashed, dumps = hashlib.blake2b, marshal.dumps
    return [hashed(dumps(v, 2), digest_size=16).digest() for v in values]


def _is_unicode(text: str) -> bool:
    """Half of a surrogate pair, as in names of files that are no UTF-8, is not."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def identify(value: Record) -> Name:
    kind = type(value)
    if kind is int:
        return value if -(2**63) <= value < 2**63 else hash_record(value)
    if kind is str and not value.isascii() and not _is_unicode(value):
        return hash_record(value)
    if kind in _DOMAIN_OF_TYPE:
        return value  # type: ignore[no-any-return]
    if isinstance(value, Location):
        return Location(*value)
    if kind.__module__ == "numpy" and getattr(value, "shape", None) == ():
        plain = value.item()
        return identify(plain) if type(plain) in (int, str, bytes) else hash_record(plain)
    return hash_record(value)


def location_array(values: Sequence[Location]) -> Any:
    import pyarrow as pa

    files, offsets, lengths = zip(*values, strict=True) if values else ((), (), ())
    return pa.StructArray.from_arrays(
        [
            pa.array(files, pa.string()),
            pa.array(offsets, pa.int64()),
            pa.array([WHOLE_FILE if n is None else n for n in lengths], pa.int64()),
        ],
        names=["file", "offset", "length"],
    )


def arrow_type(domain: str) -> Any:
    import pyarrow as pa

    return {
        INT: pa.int64(),
        STR: pa.string(),
        BYTES: pa.binary(),
        LOCATION: pa.struct([("file", pa.string()), ("offset", pa.int64()), ("length", pa.int64())]),
    }[domain]


def domain_of(array: Any) -> str:
    import pyarrow as pa

    if pa.types.is_struct(array.type):
        return LOCATION
    return INT if pa.types.is_int64(array.type) else STR if pa.types.is_string(array.type) else BYTES


def _from_names(names: Sequence[Any], domain: str) -> Any:
    import pyarrow as pa

    return location_array(names) if domain == LOCATION else pa.array(names, arrow_type(domain))


def columns(values: Any) -> list[tuple[Any, Any]]:
    """Sequence, numpy array, Arrow array or pandas Series of records -> [(positions or None for all, Arrow array)],
    one entry for each domain among them."""
    import numpy as np
    import pyarrow as pa

    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.Array):
        if pa.types.is_integer(values.type) and not values.null_count:
            return [(None, values.cast(pa.int64()))]
        if pa.types.is_string(values.type) and not values.null_count:
            return [(None, values)]
        values = values.to_pylist()
    if type(values).__module__.startswith("pandas"):
        values = values.to_numpy()
    if isinstance(values, np.ndarray):
        if values.ndim == 1 and values.dtype.kind in "iu" and values.dtype != np.uint64:
            return [(None, pa.array(values.astype(np.int64, copy=False)))]
        values = values.tolist()
    if not isinstance(values, list | tuple):
        values = list(values)
    kinds = set(map(type, values))
    if len(kinds) == 1:
        domain = _DOMAIN_OF_TYPE.get(next(iter(kinds)))
        if domain is not None:
            try:
                return [(None, _from_names(values, domain))]
            except (OverflowError, UnicodeEncodeError, pa.ArrowInvalid):
                pass  # an int beyond 64 bits, or a text that is no Unicode, is named by its hash
        elif kinds == {tuple}:
            return [(None, pa.array(_hash_tuples(values), pa.binary()))]
    names = [identify(v) for v in values]
    if not names:
        return []
    found: dict[str, list[int]] = {}
    for position, name in enumerate(names):
        found.setdefault(_DOMAIN_OF_TYPE[type(name)], []).append(position)
    if len(found) == 1:
        return [(None, _from_names(names, next(iter(found))))]
    return [(np.array(where), _from_names([names[p] for p in where], domain)) for domain, where in found.items()]


def pair_columns(inputs: Any, outputs: Any) -> Iterator[tuple[Any, Any]]:
    """Aligned inputs and outputs -> aligned Arrow arrays, one pair for each combination of domains."""
    import numpy as np

    left, right = columns(inputs), columns(outputs)
    if len(left) == 1 and len(right) == 1 and left[0][0] is None and right[0][0] is None:
        yield left[0][1], right[0][1]
        return
    total = sum(len(a) for _, a in left)
    for positions_i, array_i in left:
        slots_i = np.arange(total) if positions_i is None else positions_i
        for positions_o, array_o in right:
            slots_o = np.arange(total) if positions_o is None else positions_o
            both, at_i, at_o = np.intersect1d(slots_i, slots_o, assume_unique=True, return_indices=True)
            if len(both):
                yield array_i.take(at_i), array_o.take(at_o)


def files_in(locations: Any) -> list[str]:
    """The files that an array of locations names, each once."""
    return locations.field("file").unique().to_pylist()  # type: ignore[no-any-return]


def to_names(array: Any) -> list[Name]:
    if domain_of(array) != LOCATION:
        return array.to_pylist()  # type: ignore[no-any-return]
    return [
        Location(r["file"], r["offset"], None if r["length"] == WHOLE_FILE else r["length"]) for r in array.to_pylist()
    ]


class RecordSet:
    """A set of records, kept as one Arrow array for each domain."""

    def __init__(self, arrays: Sequence[Any] = ()) -> None:
        import pyarrow as pa

        chunks: dict[str, list[Any]] = {}
        for array in arrays:
            chunks.setdefault(domain_of(array), []).append(array)
        self._arrays = {d: _unique(pa.concat_arrays(found)) for d, found in chunks.items() if sum(map(len, found))}

    @classmethod
    def of(cls, records: Any) -> RecordSet:
        if isinstance(records, RecordSet):
            return records
        if isinstance(records, str | bytes | int | Location | dict):
            records = [records]
        if not isinstance(records, Iterable):
            raise TypeError(f"Records are asked for as a list of them, not {records!r}.")
        return cls([array for _, array in columns(records)])

    @property
    def arrays(self) -> dict[str, Any]:
        return self._arrays

    def __len__(self) -> int:
        return sum(len(a) for a in self._arrays.values())

    def __iter__(self) -> Iterator[Name]:
        for array in self._arrays.values():
            yield from to_names(array)

    def names(self) -> set[Name]:
        return set(self)

    def __or__(self, other: RecordSet) -> RecordSet:
        return RecordSet([*self._arrays.values(), *other._arrays.values()])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RecordSet) and self.names() == other.names()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = list(self)[:5]
        more = f", ... {len(self) - 5} more" if len(self) > 5 else ""
        return f"RecordSet({', '.join(map(repr, shown))}{more})"


def _unique(array: Any) -> Any:
    import pyarrow as pa

    if domain_of(array) != LOCATION:
        return array.unique()
    table = pa.Table.from_arrays(array.flatten(), names=["file", "offset", "length"])
    table = table.group_by(["file", "offset", "length"], use_threads=False).aggregate([]).combine_chunks()
    return pa.StructArray.from_arrays(
        [table.column(n).combine_chunks() if table.num_rows else pa.array([], arrow_type(LOCATION)[n].type)
         for n in ("file", "offset", "length")],
        names=["file", "offset", "length"],
    )  # fmt: skip


def to_json(name: Name) -> list[Any]:
    if isinstance(name, Location):
        return [LOCATION, *name]
    return [BYTES, name.hex()] if isinstance(name, bytes) else ["plain", name]


def from_json(value: list[Any]) -> Name:
    if value[0] == LOCATION:
        return Location(*value[1:])
    return bytes.fromhex(value[1]) if value[0] == BYTES else value[1]
