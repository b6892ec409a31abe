"""Takes secrets out of a snapshot before anything else sees it."""

from __future__ import annotations

import json
import re
from typing import Any

HIDDEN = "***"

_WORDS = (
    r"pass(?:word|wd|phrase|code)|\bpass\b|\bpwd\b|secret|token|credential|api[_.-]?key|access[_.-]?key|account[_.-]?key|private[_.-]?key|"
    r"secret[_.-]?key|client[_.-]?secret|signature|sasl\.jaas\.config|auth(?:orization)?[_.-]?header|authorization|bearer|"
    r"encryption[_.-]?key|keystore|connection[_.-]?string|session[_.-]?id|cookie|shared[_.-]?key|"
    r"pem(?:private)?key|ssl\.(?:key|keystore|truststore)\.[\w.]+|webhook"
)
_PLAIN_WORDS = rf"[\w.\-]*(?:{_WORDS})[\w.\-]*"

_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    # "password": "value" in JSON, the quotes themselves escaped or not
    (
        re.compile(rf'((?:\\*")(?:{_PLAIN_WORDS})(?:\\*")\s*:\s*(\\*"))((?:(?!\2).)*)(\2)', re.IGNORECASE | re.DOTALL),
        rf"\1{HIDDEN}\4",
    ),
    # password 'value', password = 'value', IDENTIFIED BY 'value' in SQL
    (
        re.compile(
            rf"""((?:['"`]?)(?:{_PLAIN_WORDS}|identified\s+by)(?:['"`]?)\s*(?:=>|=|:)?\s*)'(?:[^'\\]|\\.|'')*'""",
            re.IGNORECASE,
        ),
        rf"\1'{HIDDEN}'",
    ),
    # user:password@host in URLs; container@account has no colon
    (re.compile(r"([a-z][a-z0-9+.\-]*://[^\s:/@\"'\\]*):[^\s@\"'\\/]+@", re.IGNORECASE), rf"\1:{HIDDEN}@"),
    (re.compile(r"(jdbc:oracle:\w+:[^/@\s\"']+)/[^@\s\"']+@", re.IGNORECASE), rf"\1/{HIDDEN}@"),
    # password=value in URLs, connection strings and properties
    (
        re.compile(
            rf"((?:{_PLAIN_WORDS}|\bsig|\bse|\bx-amz-[\w-]+)\s*=\s*)(?!\s*['\"\\*])[^\s&;,\"'\\)]+", re.IGNORECASE
        ),
        rf"\1{HIDDEN}",
    ),
    (re.compile(r"\b((?:bearer|basic)\s+)[a-z0-9._~+/=\-]{6,}", re.IGNORECASE), rf"\1{HIDDEN}"),
    # keys known by their own form
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), HIDDEN),
    (re.compile(r"\bgh[pousr]_[A-Za-z0-9]{20,}\b"), HIDDEN),
    (re.compile(r"\bdapi[0-9a-f]{16,}\b"), HIDDEN),
    (re.compile(r"\bxox[abpr]-[A-Za-z0-9-]{8,}\b"), HIDDEN),
    (re.compile(r"\bsk[-_](?:live|test|ant|proj)?[-_]?[A-Za-z0-9_-]{16,}\b"), HIDDEN),
    (re.compile(r"\bAIza[0-9A-Za-z_\-]{30,}"), HIDDEN),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"), HIDDEN),
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL), HIDDEN),
)
# One cheap look decides whether any rule can apply: most plans hold no secret.
_SUSPECT = re.compile(
    rf"{_WORDS}|://[^\s/@\"']*:[^\s/@\"']*@|jdbc:oracle:\w+:[^/@\s\"']+/|identified\s+by|"
    r"\bsig=|x-amz-|bearer |basic |AKIA|ASIA|gh[pousr]_|dapi|xox[abpr]-|sk[-_]|AIza|eyJ|PRIVATE KEY",
    re.IGNORECASE,
)


def redact(text: str) -> str:
    if _SUSPECT.search(text) is None:
        return text
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text


_SECRET_KEY = re.compile(_WORDS, re.IGNORECASE)


def parse_redacted(line: str) -> Any:
    """The JSON of one line, without secrets: neither under keys that name one nor inside any text."""
    if _SUSPECT.search(line) is None:
        return json.loads(line)
    return _clean(json.loads(line))


def _clean(value: Any) -> Any:
    """Not recursive: plans are as deep as the user's loops are long."""
    root = [value]
    todo: list[tuple[Any, bool]] = [(root, False)]
    while todo:
        held, secret = todo.pop()
        for key, item in list(held.items() if isinstance(held, dict) else enumerate(held)):
            hidden = _SECRET_KEY.search(key) is not None if isinstance(key, str) else secret
            if isinstance(item, str):
                held[key] = HIDDEN if hidden and item else redact(item)
            elif isinstance(item, dict | list):
                todo.append((item, hidden))
    return root[0]
