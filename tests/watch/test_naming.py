from __future__ import annotations

import pytest

from whence.watch import naming
from whence.watch.sources import of_options

PATHS = {
    "file:/data/x": ("file", "/data/x"),
    "file:///data/x/": ("file", "/data/x"),
    "/data/x": ("file", "/data/x"),
    "/data/x/day=1/hour=2": ("file", "/data/x"),
    "hdfs://nn:8020/data/x": ("hdfs://nn:8020", "/data/x"),
    "s3a://bucket/some/key": ("s3://bucket", "some/key"),
    "s3://bucket": ("s3://bucket", "/"),
    "gs://bucket/k": ("gs://bucket", "k"),
    "abfss://c@acc.dfs.core.windows.net/p": ("abfss://c@acc.dfs.core.windows.net", "/p"),
}

# SAC's list of JDBC URLs; the host is part of every name
JDBC = {
    "jdbc:mysql://host:3306/db": ("mysql://host:3306", "db.t"),
    "jdbc:mysql://host/db?useSSL=false": ("mysql://host:3306", "db.t"),
    "jdbc:mariadb://host:3307/db": ("mariadb://host:3307", "db.t"),
    "jdbc:db2://host:50001/db:currentSchema=x;": ("db2://host:50001", "db.t"),
    "jdbc:derby:memory:db;create=true": ("derby", "db.t"),
    "jdbc:derby://host:1527/db;create=true": ("derby://host:1527", "db.t"),
    "jdbc:oracle:thin:@host:1521:sid": ("oracle://host:1521", "sid.t"),
    "jdbc:oracle:thin:@//host:1522/service": ("oracle://host:1522", "service.t"),
    "jdbc:oracle:thin:@(DESCRIPTION=(ADDRESS=(HOST=h)(PORT=1))(CONNECT_DATA=(SERVICE_NAME=s)))": (
        "oracle://h:1",
        "s.t",
    ),
    "jdbc:postgresql://host/db": ("postgres://host:5432", "db.public.t"),
    "jdbc:postgresql://joe:pw@host:5433/db?ssl=true": ("postgres://host:5433", "db.public.t"),
    "jdbc:sqlserver://host:1433;databaseName=db": ("mssql://host:1433", "db.dbo.t"),
    "jdbc:sqlserver://host;database=db;user=x": ("mssql://host:1433", "db.dbo.t"),
    "jdbc:teradata://host/DATABASE=db": ("teradata://host:1025", "db.t"),
    "jdbc:clickhouse://host:8123/db": ("clickhouse://host:8123", "db.t"),
    "jdbc:sqlite:/tmp/x.db": ("sqlite:/tmp/x.db", "t"),
}


@pytest.mark.parametrize("path", PATHS)
def test_paths(path: str) -> None:
    assert naming.of_path(path) == PATHS[path]


@pytest.mark.parametrize("url", JDBC)
def test_jdbc(url: str) -> None:
    assert naming.of_jdbc(url, "t") == JDBC[url]


def test_topics_keep_their_case_and_their_cluster() -> None:
    options = {"kafka.bootstrap.servers": "Broker:9092,other:9092", "subscribe": "Orders,Returns"}
    assert [(s.namespace, s.name, s.kind) for s in of_options("kafka", options)] == [
        ("kafka://Broker:9092", "Orders", "topic"),
        ("kafka://Broker:9092", "Returns", "topic"),
    ]
    assert naming.topics({"assign": '{"a": [0, 1], "b": [0]}'}) == ["a", "b"]
    assert naming.topics({"subscribepattern": "ord.*"}) == ["ord.*"]


def test_a_jdbc_query_names_its_tables() -> None:
    assert naming.jdbc_tables({"query": "SELECT * FROM orders o JOIN sales.items i ON o.id = i.id"}) == [
        "orders",
        "sales.items",
    ]
    assert naming.jdbc_tables({"dbtable": "(SELECT 1 FROM x) t"}) == ["x"]


def test_hbase_by_its_connectors_options() -> None:
    shc = {"catalog": '{"table": {"namespace": "ns", "name": "t"}, "rowkey": "k"}'}
    assert [(s.namespace, s.name) for s in of_options("org.apache.spark.sql.execution.datasources.hbase", shc)] == [
        ("hbase", "ns:t")
    ]
    new = {"hbase.table": "ns:t", "hbase.zookeeper.quorum": "zk1,zk2"}
    assert [(s.namespace, s.name, s.kind) for s in of_options("org.apache.hadoop.hbase.spark", new)] == [
        ("hbase://zk1", "ns:t", "hbase")
    ]


def test_the_hive_warehouse_connector() -> None:
    maker = "com.hortonworks.spark.sql.hive.llap.HiveWarehouseConnector"
    assert [s.name for s in of_options(maker, {"table": "db.t"})] == ["db.t"]
