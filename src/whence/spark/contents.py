"""Rows told by their contents: what of a value is hashed, so that different values have different hashes.

Spark's own hash passes over NULL wherever it stands, and over where an array ends: `[1]`, `[1, NULL]`, `[NULL, 1]` and
`[[1]]` are one to it. So a value is taken apart into *tokens* from which it could be put together again: the length of
an array before its elements, and of all that may be NULL whether it is. Flat columns are hashed as they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from py4j.java_gateway import JavaObject

from whence.model import WhenceError

_TYPES = "org.apache.spark.sql.types"
_SEEDS = (42, 4242)
# Spark hashes these as they are: no two values of one type have the same bytes there.
_FLAT = (
    *("boolean", "tinyint", "smallint", "int", "bigint", "string", "binary", "date", "timestamp", "timestamp_ntz"),
    *("interval", "void"),
)
_FLAT_WITH_SIZE = ("decimal(", "interval ", "time(")
_FLOATS = {"float": "0.0F", "double": "0.0D"}
_TEXTS = ("string collate ", "char(", "varchar(")


class Contents(ABC):
    """What a Catalyst knows of values."""

    _exprs: Any
    _jvm: Any
    _empty: JavaObject
    _new_id: Callable[[], JavaObject]

    @abstractmethod
    def seq(self, items: Iterable[JavaObject]) -> JavaObject: ...

    @abstractmethod
    def some(self, value: JavaObject) -> JavaObject: ...

    @abstractmethod
    def parse(self, text: str) -> JavaObject: ...

    @abstractmethod
    def is_a(self, value: object, java_class: str) -> bool: ...

    @abstractmethod
    def type_of(self, expr: JavaObject) -> str: ...

    @abstractmethod
    def _text(self, value: str) -> JavaObject: ...

    def content_hashes(self, attributes: Sequence[JavaObject]) -> list[JavaObject]:
        """Two independent 64-bit hashes: together an identity that does not collide in practice.

        By bytes: texts that a collation takes for equal, and 0.0 and -0.0, are told apart. The entries of a map have no
        order."""
        return _Tokens(self, grouping=False).hashes(attributes)

    def group_hashes(self, keys: Sequence[JavaObject]) -> list[JavaObject]:
        """The same of the keys of a group: what Spark takes for one group has one hash."""
        return _Tokens(self, grouping=True).hashes(keys)


class _Tokens:
    def __init__(self, c: Contents, *, grouping: bool) -> None:
        self._c = c
        self._e = c._exprs
        self._grouping = grouping

    def hashes(self, attributes: Sequence[JavaObject]) -> list[JavaObject]:
        tokens: list[JavaObject] = []
        nulls: list[JavaObject] = []
        for attribute in attributes:
            tokens += self._of(attribute, self._c.type_of(attribute), attribute.dataType)
            # The two sides of a comparison of groups may differ in whether they can be NULL, but not in their hashes.
            if self._grouping or attribute.nullable():
                nulls.append(self._e.IsNull(attribute))
        return self._hashed([*tokens, *nulls])

    def _hashed(self, tokens: Sequence[JavaObject]) -> list[JavaObject]:
        together = self._c.seq(tokens)
        return [self._e.XxHash64(together, seed) for seed in _SEEDS]

    def _of(self, value: JavaObject, kind: str, type_of_it: Callable[[], JavaObject]) -> list[JavaObject]:
        """`kind` is the type in Spark's spelling. A user-defined type has that of what it is made of."""
        if kind in _FLAT or kind.startswith(_FLAT_WITH_SIZE):
            return [value]
        if kind.startswith(_TEXTS):
            return [self._e.CollationKey(value) if self._grouping else self._bytes(value)]
        made_of = type_of_it()
        if self._c.is_a(made_of, f"{_TYPES}.UserDefinedType"):
            value, made_of = self._e.UnwrapUDT(value), made_of.sqlType()
        if kind in _FLOATS:
            return [value] if self._grouping else [value, self._sign_of_zero(value, kind)]
        return self._nested(value, kind, made_of)

    def _nested(self, value: JavaObject, kind: str, made_of: JavaObject) -> list[JavaObject]:
        if self._c.is_a(made_of, f"{_TYPES}.StructType"):
            return self._fields(value, made_of)
        if self._c.is_a(made_of, f"{_TYPES}.ArrayType"):
            return [self._size(value), self._elements(value, made_of.elementType(), bool(made_of.containsNull()))]
        if self._c.is_a(made_of, f"{_TYPES}.MapType"):
            return [self._size(value), self._entries(value)]
        if kind == "variant":
            binary = self._jvm_type("BinaryType")
            return [self._call(value, method, binary) for method in ("getValue", "getMetadata")]
        raise WhenceError(
            f"Rows with a column of the type {kind} cannot be told from each other: their source gives them neither a "
            "place nor an order, and whence cannot compare values of this type. Write the rows to Parquet and read "
            "them from there, or leave that column out."
        )

    def _fields(self, struct: JavaObject, made_of: JavaObject) -> list[JavaObject]:
        tokens: list[JavaObject] = []
        for at, field in enumerate(made_of.fields()):
            part = self._e.GetStructField(struct, at, self._c.some(field.name()))
            tokens += self._with_null(part, field.dataType(), bool(field.nullable()))
        return tokens

    def _with_null(self, value: JavaObject, made_of: JavaObject, nullable: bool) -> list[JavaObject]:
        tokens = self._of(value, str(made_of.catalogString()), lambda: made_of)
        return [*tokens, self._e.IsNull(value)] if nullable else tokens

    def _elements(self, array: JavaObject, element: JavaObject, nullable: bool) -> JavaObject:
        kind = str(element.catalogString())
        if not nullable and (kind in _FLAT or kind.startswith(_FLAT_WITH_SIZE)):
            return array
        return self._each(array, element, nullable, lambda one: self._with_null(one, element, nullable))

    def _entries(self, value: JavaObject) -> JavaObject:
        """Each entry as its hashes, in their order."""
        entries = self._e.MapEntries(value)
        element = entries.dataType().elementType()
        hashed = self._each(entries, element, False, lambda entry: self._hashed(self._fields(entry, element)))
        return self._e.SortArray(hashed, self._c.parse("true"))

    def _each(
        self, array: JavaObject, element: JavaObject, nullable: bool, tokens: Callable[[JavaObject], list[JavaObject]]
    ) -> JavaObject:
        reference = getattr(self._c._jvm, "java.util.concurrent.atomic.AtomicReference")()
        one = self._e.NamedLambdaVariable("x", element, nullable, self._c._new_id(), reference)
        named = [part for i, token in enumerate(tokens(one)) for part in (self._c._text(f"t{i}"), token)]
        struct = self._e.CreateNamedStruct(self._c.seq(named))
        return self._e.ArrayTransform(array, self._e.LambdaFunction(struct, self._c.seq([one]), False))

    def _size(self, value: JavaObject) -> JavaObject:
        return self._e.Size(value, False)

    def _bytes(self, text: JavaObject) -> JavaObject:
        return getattr(getattr(self._e, "Cast$"), "MODULE$").apply(text, self._jvm_type("BinaryType"), False)

    def _sign_of_zero(self, value: JavaObject, kind: str) -> JavaObject:
        is_zero = self._e.EqualTo(value, self._c.parse(_FLOATS[kind]))
        written = getattr(getattr(self._e, "Cast$"), "MODULE$").apply(value, self._jvm_type("StringType"), False)
        return self._e.If(is_zero, written, self._e.Literal(None, self._jvm_type("StringType")))

    def _call(self, value: JavaObject, method: str, gives: JavaObject) -> JavaObject:
        return self._e.objects.Invoke(value, method, gives, self._c._empty, self._c._empty, True, True, True)

    def _jvm_type(self, name: str) -> JavaObject:
        return getattr(getattr(self._c._jvm, "org.apache.spark.sql.types.DataTypes"), name)
