"""Kinds of secrets, each in the place where Spark users put them: none may survive. And what looks like one stays."""

from __future__ import annotations

import json

import pytest

from whence.model.redact import names_secret, parse_redacted, redact, without_secrets
from whence.store import parse_location

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
    "all below a key": {"credentials": {"user": "joe", "value": SECRET}},
    "db_pwd": {"db_pwd": SECRET},
    "dbPwd": {"dbPwd": SECRET},
    "user_pass": {"user_pass": SECRET},
    "Parquet's own keys": {"parquet.encryption.footer.key": SECRET},
}

# Each with the secret in it: SECRET stands for it.
TEXTS = {
    "a key of aes_encrypt": "SELECT aes_encrypt(b, 'SECRET') FROM t",
    "of an INSERT": "INSERT INTO t SELECT id, base64(aes_encrypt(concat(a, ')'), \"SECRET\", 'GCM')) FROM s",
    "of aes_decrypt": "SELECT AES_DECRYPT (unhex(b), unhex('SECRET'), 'ECB')",
    "of one that may fail": "try_aes_decrypt(b, 'SECRET')",
    "of one within another": "aes_encrypt(aes_decrypt(b, 'SECRET'), 'SECRET2', 'CBC', '', 'x')",
    "in a plan's text": "Project [aes_encrypt(cast(b#1 as binary), cast(SECRET as binary), GCM, cast( as binary))]",
    "of PostgreSQL's": "pgp_sym_decrypt(b, 'SECRET')",
    "with a quote in it": "aes_encrypt(b, 'it''s SECRET')",
    "of a text that was cut": "SELECT aes_encrypt(b, 'SECRET",
    "password in OPTIONS": "CREATE TABLE t USING jdbc OPTIONS (user 'joe', PASSWORD 'SECRET', dbtable 't')",
    "in TBLPROPERTIES": "ALTER TABLE t SET TBLPROPERTIES ('db.password' = 'SECRET', 'a' = 'b')",
    "in a map": "SELECT * FROM f(options => map('password', 'x', 'api.key' => 'SECRET'))",
    "with a doubled quote": "OPTIONS (password 'it''s SECRET')",
    "with an escaped quote": r"OPTIONS (password 'it\'s SECRET')",
    "that was cut": "OPTIONS (password 'SECRET",
    "SET": "SET spark.hadoop.fs.s3a.secret.key=SECRET",
    "IDENTIFIED BY": "CREATE USER joe IDENTIFIED  BY 'SECRET'",
    "IDENTIFIED BY without quotes": "ALTER USER joe IDENTIFIED BY SECRET ACCOUNT UNLOCK",
    "password: X": "login failed, password: SECRET",
    'password="x"': 'bad config: user="joe" password="SECRET"',
    "password = x": "password = SECRET",
    "password='x'": "connect(password='SECRET')",
    "a dict": "{'user': 'joe', 'db_pwd': 'SECRET'}",
    "db_pwd=": "db_pwd=SECRET;",
    "pwd in a connection string": "Server=db;Uid=joe;Pwd=SECRET;",
    "an account key": "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=SECRETabc+/==;EndpointSuffix=core",
    "a shared access signature": "SharedAccessSignature=sv=2020&sig=SECRET",
    "a storage key": "fs.azure.storage-key=SECRET",
    "Authorization: Token": "GET /x 401 (Authorization: Token SECRET)",
    "Authorization: Bearer": "curl -H 'Authorization: Bearer SECRET' http://x",
    "Authorization: ApiKey": 'headers {"Authorization": "ApiKey SECRET"}',
    "Authorization: Digest": "Authorization: Digest SECRET, realm=x",
    "Proxy-Authorization": "Proxy-Authorization: Basic SECRET",
    "a cookie": "Cookie: session=SECRET; theme=dark",
    "x-api-key": "x-api-key: SECRET",
    "token: x": "token: SECRET",
    "token = x": "token = SECRET",
    "access token": "?access_token=SECRET&x=1",
    "refresh token": '"refresh_token": "SECRET"',
    "WHERE": "SELECT * FROM users WHERE token = 'SECRET'",
    "a command": "spark-submit --conf x=y --password SECRET job.py",
    "a URL": "cannot reach postgresql://joe:SECRET@db:5432/x?a=b",
    "a URL with @ in the password": "mongodb://joe:p@SECRET@db/x",
    "a URL with a token": "https://SECRET@github.com/x/y",
    "?password=": "jdbc:mysql://db/x?user=joe&password=SECRET",
    "?password= of SQLAlchemy": "postgresql+psycopg://db/x?sslpassword=SECRET",
    "a signed URL": "https://b.s3.amazonaws.com/k?X-Amz-Credential=SECRET&X-Amz-Signature=SECRET",
    "JSON": '{"a": {"password": "SECRET"}}',
    "JSON with a quote": r'{"password": "a\"SECRET"}',
    "JSON in JSON": json.dumps(json.dumps({"password": 'a"SECRET', "b": 1})),
    "JSON in JSON in JSON": json.dumps(json.dumps(json.dumps({"token": "SECRET"}))),
    "several lines": "url: x\npassword: SECRET\nuser: joe",
    "a private key that was cut": "-----BEGIN PRIVATE KEY-----\nSECRET",
}

KNOWN_FORMS = [
    "AKIAIOSFODNN7EXAMPLE",
    "ghp_abcdefghijklmnopqrstuvwxyz012345",
    "dapi0123456789abcdef0123",
    "xoxb-1234-abcdefgh",
    "glpat-abcdefghij0123456789",
    "github_pat_11ABCDEFG0abcdefghijkl_x",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
]


@pytest.mark.parametrize("kind", KINDS)
def test_no_secret_survives(kind: str) -> None:
    cleaned = json.dumps(parse_redacted(json.dumps({"plan": KINDS[kind]})))
    assert SECRET not in cleaned
    assert "***" in cleaned


@pytest.mark.parametrize("kind", TEXTS)
def test_no_secret_survives_in_text(kind: str) -> None:
    text = TEXTS[kind].replace("SECRET", SECRET)
    cleaned = redact(text)
    assert SECRET not in cleaned
    assert "***" in cleaned
    assert redact(cleaned) == cleaned
    assert SECRET not in json.dumps(parse_redacted(json.dumps({"details": {"sql": text}, "error": [text]})))


@pytest.mark.parametrize("form", KNOWN_FORMS)
def test_keys_known_by_their_form(form: str) -> None:
    assert form not in redact(f"read it with {form} please")


STAYS = [
    "SELECT passenger, tokens, id FROM trips WHERE compass = 'north'",
    "SELECT token_count, tokenCount FROM t WHERE token_count = 5 AND tokenCount = 6",
    "token_count=12, max_tokens=4096, num_tokens: 12, tokens=7",
    "SELECT password_hash, secret_santa FROM t ORDER BY password",
    "struct<password:string,token:bigint,secret:array<string>>",
    " |-- password: string (nullable = true)",
    "CREATE TABLE users (id INT, password STRING, token BINARY)",
    "SELECT * FROM a JOIN b ON a.token = b.token",
    "UPDATE users SET password = NULL",
    "secretary = 'Ann' AND author = 'Ann' AND bypass = 'x' AND passed = 'y'",
    "WHERE password_changed_at = '2024-01-01' AND password_length = 8 AND authorization_date = '2024-01-01'",
    "WHERE token_type = 'bearer'",
    "[PARSE_SYNTAX_ERROR] Syntax error at or near end of input, unexpected token 'FROM'",
    "tokenizer=Tokenizer tokenization: done",
    "encrypted = 'yes'; SELECT is_encrypted(a, b), decode(a, 'utf-8')",
    "aes_encrypt(b)",
    "fs.s3a.aws.credentials.provider=org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    "s3a://bucket/key=1/part-0.parquet",
    "abfss://container@account.dfs.core.windows.net/path",
    "jdbc:postgresql://db:5432/x",
    "mailto joe@example.com at http://example.com/a:b@c",
    "/home/joe/data",
    "spark.sql.shuffle.partitions=2, primary_key=id, sort_key: a",
    "Basic Latin, bearer of news",
]


@pytest.mark.parametrize("text", STAYS)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


def test_what_stands_around_a_secret_stays() -> None:
    assert redact("SELECT aes_encrypt(b, 'k'), c FROM t") == "SELECT aes_encrypt(b, ***), c FROM t"
    assert (
        redact("OPTIONS (user 'joe', password 'p', dbtable 't')") == "OPTIONS (user 'joe', password '***', dbtable 't')"
    )
    assert redact("jdbc:x://db;user=joe;password=p;database=d") == "jdbc:x://db;user=joe;password=***;database=d"
    assert redact('{"password": "", "user": "joe"}') == '{"password": "", "user": "joe"}'
    assert without_secrets({"password": "p", "n": 5, "x": ["y"]}) == {"password": "***", "n": 5, "x": ["y"]}


def test_options_by_their_names() -> None:
    secret = ("password", "db_pwd", "fs.s3a.secret.key", "accessToken", "X-Api-Key", "sasl.jaas.config", "sfPassword")
    plain = ("header", "sep", "inferSchema", "token_count", "maxTokens", "passwordLength", "compass", "mergeSchema")
    assert [name for name in (*secret, *plain) if names_secret(name)] == [*secret]


def test_the_name_of_a_store_tells_no_password() -> None:
    for query in (f"password={SECRET}", f"sslpassword={SECRET}", "x=y"):
        shown = str(parse_location(f"postgresql://joe:{SECRET}@db/x?tables=/t&{query}"))
        assert SECRET not in shown
        assert "db/x" in shown


def test_long_texts_take_no_long_time() -> None:
    """Each of these would take minutes if any rule looked back over what it has seen."""
    assert SECRET not in redact("a" * 300_000 + f" password={SECRET}")
    for text in ("password" * 40_000, "aes_encrypt(" * 2_000, "'" * 200_000 + "token="):
        assert SECRET not in redact(f"{text} password={SECRET}")
