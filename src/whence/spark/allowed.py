"""What may come out of a store that is then opened or brought to life, beyond being signed by this user."""

from __future__ import annotations

from collections.abc import Mapping

# Files of these formats are followed: Spark itself reads and writes them, and a write's files are those it made.
FORMATS = ("parquet", "orc", "csv", "json", "text", "xml", "avro")

# What plans are made of, as patterns of Java's ObjectInputFilter. Those of Scala that are shut out run code when they
# are read.
CLASSES = ";".join(
    (
        *("!scala.sys.**", "!scala.reflect.**", "!scala.tools.**", "!scala.collection.immutable.LazyList*"),
        *("org.apache.spark.sql.catalyst.**", "org.apache.spark.sql.types.**", "org.apache.spark.sql.connector.**"),
        *("org.apache.spark.sql.execution.**", "org.apache.spark.sql.internal.**", "org.apache.spark.sql.errors.**"),
        *("org.apache.spark.sql.classic.*", "org.apache.spark.sql.expressions.**", "org.apache.spark.unsafe.types.*"),
        *("org.apache.spark.api.python.*", "org.apache.spark.QueryContext*", "org.apache.spark.util.collection.**"),
        *("org.apache.spark.util.AccumulatorV2", "org.apache.spark.util.AccumulatorMetadata"),
        *("org.apache.spark.util.CollectionAccumulator", "java.util.concurrent.atomic.AtomicReference"),
        # Makes only what a class on this list has among its own functions.
        "java.lang.invoke.SerializedLambda",
        *("scala.**", "java.lang.*", "java.util.*", "java.math.*", "java.time.*", "java.net.URI"),
        "!*",
    )
)

# Options that say how files are read, and none that says where from or with which rights.
_READING = {
    *("header", "sep", "delimiter", "encoding", "charset", "quote", "escape", "comment", "inferschema", "mode"),
    *("nullvalue", "nanvalue", "positiveinf", "negativeinf", "emptyvalue", "locale", "multiline", "linesep"),
    *("dateformat", "timestampformat", "timestampntzformat", "timezone", "enabledatetimeparsingfallback"),
    *("ignoreleadingwhitespace", "ignoretrailingwhitespace", "maxcolumns", "maxcharspercolumn", "preferdate"),
    *("unescapedquotehandling", "chartoescapequoteescaping", "columnnameofcorruptrecord", "enforceschema"),
    *("samplingratio", "extension", "singlevariantcolumn", "primitivesasstring", "prefersdecimal", "allowcomments"),
    *("allowunquotedfieldnames", "allowsinglequotes", "allownumericleadingzeros", "allownonnumericnumbers"),
    *("allowbackslashescapinganycharacter", "allowunquotedcontrolchars", "dropfieldifallnull", "wholetext"),
    *("mergeschema", "datetimerebasemode", "int96rebasemode", "recursivefilelookup", "pathglobfilter"),
    *("modifiedbefore", "modifiedafter", "rowtag", "excludeattribute", "attributeprefix", "valuetag"),
    *("ignoresurroundingspaces", "ignorenamespace", "wildcardcolname", "avroschema", "ignoreextension"),
    *("ignorecorruptfiles", "ignoremissingfiles", "compression", "serialization.format", "basepath"),
}


def reading_options(options: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in options.items() if key.lower() in _READING}


def names_class(schema: object) -> bool:
    """Whether a schema names a user-defined type: to read it, Spark would import or unpickle whatever it names."""
    if isinstance(schema, dict):
        return schema.get("type") == "udt" or any(names_class(part) for part in schema.values())
    return isinstance(schema, list) and any(names_class(part) for part in schema)
