"""Names of datasets, by OpenLineage's conventions: a namespace that says where, a name that says what."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

Name = tuple[str, str]

_BUCKETS = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "oss": "oss", "cos": "cos", "cosn": "cosn"}
_PARTITION = re.compile(r"(/[^/=]+=[^/]*)+/?$")


def of_path(path: str) -> Name:
    """A file or directory. Partition directories (`/day=1`) name the dataset they are part of."""
    if path.startswith("file:") or "://" not in path:
        return "file", _trim(re.sub(r"^file:/*", "/", path))
    parts = urlsplit(path)
    if parts.scheme in _BUCKETS:
        return f"{_BUCKETS[parts.scheme]}://{parts.netloc}", _trim(parts.path).lstrip("/") or "/"
    return f"{parts.scheme}://{_without_user(parts)}", _trim(parts.path)


def _without_user(parts: object) -> str:
    netloc = str(getattr(parts, "netloc", ""))
    scheme = str(getattr(parts, "scheme", ""))
    # abfss://container@account names the container, not a user
    return netloc if scheme.startswith(("abfs", "wasb")) else netloc.rpartition("@")[2]


def _trim(path: str) -> str:
    path = _PARTITION.sub("", unquote(path) if "%" in path else path)
    return path.rstrip("/") or "/"


def of_topic(servers: str | None, topic: str) -> Name:
    """A Kafka topic. Its name keeps its case; of several servers the first names the cluster."""
    first = (servers or "").split(",")[0].strip()
    return f"kafka://{first}" if first else "kafka", topic


def topics(options: Mapping[str, str]) -> list[str]:
    """The topics that a Kafka reader or writer names: one, a list, an assignment, or a pattern as it stands."""
    for key in ("topic", "subscribe"):
        if options.get(key):
            return [t.strip() for t in options[key].split(",") if t.strip()]
    if options.get("assign"):
        try:
            return sorted(json.loads(options["assign"]))
        except ValueError:
            return [options["assign"]]
    pattern = options.get("subscribepattern")
    return [pattern] if pattern else []


_DEFAULT_PORTS = {
    "postgres": 5432,
    "mysql": 3306,
    "mariadb": 3306,
    "mssql": 1433,
    "oracle": 1521,
    "db2": 50000,
    "derby": 1527,
    "teradata": 1025,
}
_SCHEMES = {"postgresql": "postgres", "sqlserver": "mssql", "jtds:sqlserver": "mssql"}


def of_jdbc(url: str, table: str) -> Name:
    """A table behind JDBC; the host is part of the name, since two servers may have databases of one name."""
    text = re.sub(r"^jdbc:", "", url.strip(), flags=re.IGNORECASE)
    table = ".".join(part.strip('`"[] ') for part in table.split("."))
    oracle = re.match(r"oracle:\w+:(?:[^/@]*/[^@]*)?@(?://)?(.*)$", text)
    if oracle:
        return _oracle(oracle.group(1), table)
    scheme, _, rest = text.partition(":")
    if scheme == "jtds":
        scheme, _, rest = rest.partition(":")
    scheme = _SCHEMES.get(scheme, scheme)
    if not rest.startswith("//"):
        if scheme == "derby":
            database = re.sub(r"^(memory|directory|classpath|jar):", "", rest).split(";")[0]
            return "derby", f"{database}.{table}"
        return f"{scheme}:{rest.split('?')[0].split(';')[0]}" if rest else scheme, table
    host, _, path = rest[2:].partition("/")
    host = host.rpartition("@")[2]
    host, _, properties = host.partition(";")
    database = re.split(r"[;?:]", path)[0]
    settings = dict(p.split("=", 1) for p in re.split(r"[;?&,/]", f"{properties};{path}") if "=" in p)
    lowered = {key.lower(): value for key, value in settings.items()}
    database = lowered.get("databasename") or lowered.get("database") or database
    if "=" in database:
        database = ""
    host = host.split(",")[0]
    if "dbs_port" in lowered:
        host = f"{host}:{lowered['dbs_port']}"
    if scheme in _DEFAULT_PORTS and ":" not in host.rpartition("]")[2]:
        host = f"{host or 'localhost'}:{_DEFAULT_PORTS[scheme]}"
    schema = {"postgres": "public", "mssql": "dbo"}.get(scheme)
    if schema and "." not in table:
        table = f"{schema}.{table}"
    return f"{scheme}://{host}", f"{database}.{table}" if database else table


def _oracle(rest: str, table: str) -> Name:
    if rest.startswith("("):
        host, port, service = (
            re.search(rf"{key}\s*=\s*([^)\s]+)", rest, re.IGNORECASE)
            for key in ("HOST", "PORT", "(?:SERVICE_NAME|SID)")
        )
        where = f"{host.group(1) if host else 'localhost'}:{port.group(1) if port else 1521}"
        return f"oracle://{where}", f"{service.group(1)}.{table}" if service else table
    found = re.match(r"([^:/?]+)(?::(\d+))?(?:[:/]([^?]*))?", rest)
    if found is None:
        return "oracle", table
    where = f"{found.group(1)}:{found.group(2) or 1521}"
    return f"oracle://{where}", f"{found.group(3)}.{table}" if found.group(3) else table


def is_jdbc_query(options: Mapping[str, str]) -> bool:
    """Whether `dbtable` or `query` is a SELECT of the database's own; its columns are not those of its tables."""
    return bool(re.search(r"\s|\(", (options.get("dbtable") or options.get("query") or "").strip()))


def jdbc_tables(options: Mapping[str, str]) -> list[str]:
    """The tables behind `dbtable` or `query`; of a query, those that its FROM and JOIN name."""
    text = options.get("dbtable") or options.get("query") or ""
    if not is_jdbc_query(options):
        return [text] if text else []
    return _tables(text) or [re.sub(r"\s+", " ", text)]


_COMMENTS = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_TOKENS = re.compile(
    r"""'(?:[^']|'')*'|(?:[\w$-]+|"[^"]+"|`[^`]+`|\[[^\]]+\])(?:\.(?:[\w$-]+|"[^"]+"|`[^`]+`|\[[^\]]+\]))*|\S"""
)
_ENDS = frozenset(
    ["where", "group", "order", "having", "union", "limit", "on", "using", "fetch", "window", "intersect", "except"]
)


def _tables(query: str) -> list[str]:
    """What stands after FROM, JOIN and the commas there; not the names that WITH gives, nor in `extract(x FROM y)`."""
    tokens = _TOKENS.findall(_COMMENTS.sub(" ", query))
    words = [t.lower() for t in tokens]
    given = {w for w, nxt, after in zip(words, words[1:], words[2:], strict=False) if nxt == "as" and after == "("}
    found: list[str] = []
    calls: list[bool] = []
    """For each open parenthesis: whether it is a function's."""
    listing: list[bool] = [False]
    wanted = False
    for place, word in enumerate(words):
        if word == "(":
            before = words[place - 1] if place else ""
            is_name = bool(re.match(r"\w", before)) and before not in (
                "from",
                "join",
                "in",
                "exists",
                "as",
                "on",
                "and",
                "or",
            )
            calls.append(is_name and not wanted)
            listing.append(False)
            wanted = False
        elif word == ")":
            if calls:
                calls.pop()
                listing.pop()
        elif word in ("from", "join") and not (calls and calls[-1]):
            wanted = listing[-1] = True
        elif word == "," and listing[-1]:
            wanted = True
        elif word in _ENDS:
            wanted = listing[-1] = False
        elif wanted and word not in ("lateral", "only"):
            is_function = words[place + 1 : place + 2] == ["("]
            if re.match(r"[\w\"`\[]", word) and word not in given and not is_function:
                found.append(tokens[place])
            wanted = False
    return list(dict.fromkeys(found))


def of_hbase(options: Mapping[str, str]) -> Name | None:
    """HBase through its connector's options: `catalog` (JSON) or `hbase.table`."""
    where = options.get("hbase.zookeeper.quorum", "").split(",")[0]
    namespace = f"hbase://{where}" if where else "hbase"
    if options.get("hbase.table"):
        return namespace, options["hbase.table"]
    try:
        table = json.loads(options.get("catalog", ""))["table"]
        return namespace, f"{table.get('namespace', 'default')}:{table['name']}"
    except (ValueError, KeyError, TypeError):
        return None
