"""Thirty kinds of secrets, each in the place where Spark users put them. None may survive."""

from __future__ import annotations

import json

import pytest

from whence.watch.redact import parse_redacted, redact

SECRET = "hunter2Hunter2hunter2"

KINDS = {
    "JDBC password option": {"password": SECRET},
    "upper case": {"PASSWORD": SECRET},
    "dotted": {"spark.hadoop.javax.jdo.option.ConnectionPassword": SECRET},
    "sfPassword": {"sfPassword": SECRET},
    "passwd": {"mysql.passwd": SECRET},
    "pwd": {"pwd": SECRET},
    "S3 secret key": {"fs.s3a.secret.key": SECRET},
    "S3 access key": {"fs.s3a.access.key": SECRET},
    "S3 session token": {"fs.s3a.session.token": SECRET},
    "Azure account key": {"fs.azure.account.key.acc.dfs.core.windows.net": SECRET},
    "Azure client secret": {"fs.azure.account.oauth2.client.secret": SECRET},
    "Google private key": {"private_key": SECRET},
    "Kafka JAAS": {"kafka.sasl.jaas.config": f'org.apache.kafka.PlainLoginModule required password="{SECRET}";'},
    "Kafka keystore password": {"kafka.ssl.keystore.password": SECRET},
    "Kafka truststore": {"kafka.ssl.truststore.certificates": SECRET},
    "API key": {"api_key": SECRET},
    "X-Api-Key": {"x-api-key": SECRET},
    "token": {"token": SECRET},
    "OAuth": {"oauth.accessToken": SECRET},
    "credentials": {"credentials": SECRET},
    "authorization header": {"header.Authorization": f"Bearer {SECRET}"},
    "passphrase": {"ssh.passphrase": SECRET},
    "connection string": {"eventhubs.connectionString": f"Endpoint=sb://x;SharedAccessKey={SECRET}"},
    "user and password in a URL": {"url": f"jdbc:postgresql://joe:{SECRET}@db:5432/x"},
    "password parameter of a URL": {"url": f"jdbc:mysql://db/x?user=joe&password={SECRET}&ssl=true"},
    "semicolon parameter": {"url": f"jdbc:sqlserver://db;user=joe;password={SECRET};database=x"},
    "Oracle thin": {"url": f"jdbc:oracle:thin:joe/{SECRET}@db:1521/x"},
    "MongoDB": {"uri": f"mongodb+srv://joe:{SECRET}@cluster/x"},
    "signed URL": {"path": f"https://acc.blob.core.windows.net/c/f?sv=1&sig={SECRET}"},
    "SQL option": {"sql": f"CREATE TABLE t USING jdbc OPTIONS (url 'x', password '{SECRET}')"},
    "SQL option with =": {"sql": f"CREATE TABLE t OPTIONS ('secret.key' = '{SECRET}')"},
    "IDENTIFIED BY": {"sql": f"CREATE USER joe IDENTIFIED BY '{SECRET}'"},
    "basic authorization in text": {"error": f"401 for Authorization: Basic {SECRET}="},
    "token parameter in an error": {"error": f"GET /x?access_token={SECRET} failed"},
    "nested JSON text": {"catalog": json.dumps({"table": {"name": "t"}, "password": SECRET})},
    "nested map": {"options": {"fs.s3a.secret.key": SECRET}},
    "list under a key": {"tokens": [SECRET]},
}

KNOWN_FORMS = [
    "AKIAIOSFODNN7EXAMPLE",
    "ghp_abcdefghijklmnopqrstuvwxyz012345",
    "dapi0123456789abcdef0123",
    "xoxb-1234-abcdefgh",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
]


@pytest.mark.parametrize("kind", KINDS)
def test_no_secret_survives(kind: str) -> None:
    cleaned = json.dumps(parse_redacted(json.dumps({"plan": KINDS[kind]})))
    assert SECRET not in cleaned
    assert "***" in cleaned


@pytest.mark.parametrize("form", KNOWN_FORMS)
def test_keys_known_by_their_form(form: str) -> None:
    assert form not in redact(f"read it with {form} please")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT passenger, tokens, id FROM trips WHERE compass = 'north'",
        "s3a://bucket/key=1/part-0.parquet",
        "abfss://container@account.dfs.core.windows.net/path",
        "jdbc:postgresql://db:5432/x",
        "/home/joe/data",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text
