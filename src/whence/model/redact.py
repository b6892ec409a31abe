"""Takes secrets out of text and of what was read from JSON: SQL, options, URLs, errors, plans. The one list for all.

A secret is known by the name before it (`password = 'x'`), by the function that it is a key of (`aes_encrypt(a, 'x')`),
by its place in a URL (`//user:x@host`), or by its own form (`AKIA...`). A name is judged as a whole: `access_token`
names a secret, `token_count` does not. In doubt the text is hidden: a word less in a report harms nobody.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

HIDDEN = "***"

_STRONG = (
    r"pass(?:word|wd|phrase|code)|(?<![a-z])(?:pass|pwd)(?![a-z])|(?-i:(?<=[a-z])(?:Pass|Pwd)(?![a-z]))|"
    r"secret(?!ar)|credential|"
    r"(?:api|access|account|private|encryption|shared|master|signing|session|storage|sas|pem(?:private)?)[_.-]?key|"
    r"sasl\.jaas\.config|connection[_.-]?string|webhook|keystore|ssl\.(?:key|truststore)\.|(?:footer|column)\.keys?\b"
)
# Names of harmless things as often, so that numbers and the like are left.
_WEAK = (
    r"token(?!i[sz])|signature|cookie|session[_.-]?id|bearer|authorization|auth[_.-]?header|"
    r"(?<![a-z0-9_])sig(?![a-z0-9_])"
)
_IDENTIFIED = r"identified\s+by"
_WORD = re.compile(f"{_STRONG}|{_WEAK}|{_IDENTIFIED}", re.IGNORECASE)
_STRONG_WORD = re.compile(f"{_STRONG}|{_IDENTIFIED}", re.IGNORECASE)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# About a secret, and none itself.
_INNOCENT = re.compile(
    r"(?:^|[.])(?:max|min|num|nr|n|no|count|total|avg|sum|mean|is|has|had|use|uses|enable|enabled|allow|require|"
    r"requires|required|check|verify|validate)[_-][^.]*$|"
    r"[_.-](?:count|counts|length|len|size|total|num|number|avg|date|day|days|time|at|on|age|type|kind|status|state|"
    r"enabled|required|policy|expiry|expires|expired|expiration|changed|updated|created|reset|attempts|strength|ttl|"
    r"names?|columns?|fields?|provider|class|location|path|file|version|algorithm)$",
    re.IGNORECASE,
)
_HEADER = re.compile(r"authorization$|auth[_.-]?header$|cookie$", re.IGNORECASE)

_LONGEST_NAME = 200
_NAME = re.compile(rf"[\w.\-]{{0,{_LONGEST_NAME}}}")
_END_OF_NAME = re.compile(r"(?:\\*['\"`])?")
_SEPARATOR = re.compile(r"\s*(=>|:=|==?|:)\s*")
_GAP = re.compile(r"\s+")
_QUOTE = re.compile(r"\\*['\"]")
_BARE = re.compile(r"[^\s&;,\"'\\)\]}<>({\[][^\s&;,\"'\\)\]}<>]*")
_LINE = re.compile(r"[^\r\n\"'\\]+")
_NO_VALUE = re.compile(r"(?:null|none|true|false|\*\*\*)\Z", re.IGNORECASE)
_NUMBER = re.compile(r"[-+]?[\d._,]+\Z")
_TYPE = re.compile(
    r"(?:string|binary|boolean|byte|tinyint|short|smallint|int|integer|long|bigint|float|double|decimal|date|"
    r"timestamp\w*|void|variant|struct|array|map|interval|char|varchar)\b",
    re.IGNORECASE,
)
_SHORT = 8

_KEYED = re.compile(
    r"\b(?:(?:try_)?aes_(?:en|de)crypt|pgp_(?:sym|pub)_(?:en|de)crypt(?:_bytea)?|(?:en|de)crypt(?:_raw|_iv|by\w+)?)\s*\(",
    re.IGNORECASE,
)

_FORMS: tuple[tuple[re.Pattern[str], str], ...] = (
    # user:password@host in URLs; container@account has no colon
    (re.compile(r"(://[^\s:/@\"'\\]{0,300}):[^\s/?#\"'\\]{0,2000}@"), rf"\1:{HIDDEN}@"),
    (re.compile(r"(https?://)[^\s:/@?#\"'\\]{1,2000}@", re.IGNORECASE), rf"\1{HIDDEN}@"),
    (re.compile(r"(jdbc:oracle:\w{1,20}:[^/@\s\"']{1,300})/[^@\s\"']{1,300}@", re.IGNORECASE), rf"\1/{HIDDEN}@"),
    (re.compile(r"\b((?:bearer|basic)\s+)[a-z0-9._~+/=\-]{6,}", re.IGNORECASE), rf"\1{HIDDEN}"),
    # keys known by their own form
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), HIDDEN),
    (re.compile(r"\b(?:gh[pousr]_|github_pat_|glpat-|npm_|hf_)[A-Za-z0-9_-]{20,}"), HIDDEN),
    (re.compile(r"\bdapi[0-9a-f]{16,}\b"), HIDDEN),
    (re.compile(r"\bxox[abpr]-[A-Za-z0-9-]{8,}\b"), HIDDEN),
    (re.compile(r"\bsk[-_](?:live|test|ant|proj)?[-_]?[A-Za-z0-9_-]{16,}\b"), HIDDEN),
    (re.compile(r"\bAIza[0-9A-Za-z_\-]{30,}"), HIDDEN),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"), HIDDEN),
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL), HIDDEN),
)
# One cheap look decides whether any rule can apply: most plans hold no secret. Where a sign is common, a closer one.
_SIGNS: tuple[tuple[str, re.Pattern[str] | None], ...] = (
    *(
        (sign, None)
        for sign in ("pass", "pwd", "secret", "credential", "webhook", "keystore", "sasl.", "token", "crypt")
    ),
    *(
        (sign, None)
        for sign in ("signature", "cookie", "bearer", "authorization", "identified", "basic ", "private key")
    ),
    *((sign, None) for sign in ("akia", "asia", "github_pat_", "glpat-", "npm_", "hf_", "dapi", "xox", "aiza", "eyj")),
    (
        "key",
        re.compile(r"(?:api|access|account|private|encryption|shared|master|signing|session|storage|sas|pem)[_.-]?key"),
    ),
    ("key", re.compile(r"ssl\.key|(?:footer|column)\.key")),
    ("truststore", None),
    ("session", re.compile(r"session[_.-]?id")),
    ("connection", re.compile(r"connection[_.-]?string")),
    ("header", re.compile(r"auth[_.-]?header")),
    ("sig", re.compile(r"(?<![a-z0-9_])sig(?![a-z0-9_])")),
    ("sk", re.compile(r"\bsk[-_]")),
    ("gh", re.compile(r"gh[pousr]_")),
    ("jdbc:oracle:", None),
    ("://", re.compile(r"://[^\s/\"']{0,2400}@")),
)


def _is_suspect(text: str) -> bool:
    text = text.lower()
    return any(sign in text and (closer is None or closer.search(text) is not None) for sign, closer in _SIGNS)


def redact(text: str) -> str:
    if not _is_suspect(text):
        return text
    text = _without(text, _named(text))
    text = _without(text, _keys(text))
    for pattern, replacement in _FORMS:
        text = pattern.sub(replacement, text)
    return text


def names_secret(name: str) -> bool:
    """Whether what stands under this name, of an option or a setting, is a secret."""
    return _WORD.search(name) is not None and _INNOCENT.search(_HUMP.sub("_", name)) is None


def _without(text: str, spans: Iterable[tuple[int, int]]) -> str:
    kept, at = [], 0
    for start, end in spans:
        if start >= at:
            kept += [text[at:start], HIDDEN]
            at = end
    return "".join(kept) + text[at:]


# --- by the name before it


def _named(text: str) -> Iterator[tuple[int, int]]:
    done = 0
    for word in _WORD.finditer(text):
        if word.start() < done:
            continue
        start = word.start()
        while start > max(done, word.start() - _LONGEST_NAME) and (
            text[start - 1].isalnum() or text[start - 1] in "_.-"
        ):
            start -= 1
        name = text[start : _found(_NAME, text, word.end())].rstrip(".-")
        done = end = start + len(name)
        if not names_secret(name.lstrip("-")):
            continue
        span = _value(text, end, name)
        if span is not None:
            yield span
            done = span[1]


def _value(text: str, at: int, name: str) -> tuple[int, int] | None:
    """Where the value of a name that ends here stands, if there is one."""
    strong = _STRONG_WORD.search(name) is not None
    at = _found(_END_OF_NAME, text, at)
    separator = _SEPARATOR.match(text, at)
    if separator is not None:
        at = separator.end()
    elif strong and (gap := _GAP.match(text, at)) is not None:
        at = gap.end()
    else:
        return None
    quote = _QUOTE.match(text, at)
    if quote is not None:
        end = _end_of_quoted(text, quote.end(), quote[0])
        return None if _NO_VALUE.match(text[quote.end() : end]) or end == quote.end() else (quote.end(), end)
    if separator is None and not name.startswith("--") and not name.lower().startswith("identified"):
        return None  # SELECT password FROM users
    if _HEADER.search(name):
        line = _LINE.match(text, at)
        return None if line is None else line.span()
    bare = _BARE.match(text, at)
    if bare is None or _is_harmless(bare[0], name, separator[1] if separator else "", strong):
        return None
    return bare.span()


def _is_harmless(value: str, name: str, separator: str, strong: bool) -> bool:
    if _NO_VALUE.match(value):
        return True
    if value.rpartition(".")[2].lower() == name.rpartition(".")[2].lower():
        return True  # a.token = b.token
    if separator == ":" and (_TYPE.match(value) or value.startswith("//")):
        return True  # struct<password:string>
    return not strong and (_NUMBER.match(value) is not None or (separator == ":" and len(value) < _SHORT))


def _end_of_quoted(text: str, at: int, quote: str) -> int:
    """Before the quote that ends it, or the end of a text that was cut."""
    if len(quote) > 1:  # JSON within JSON: a quote inside of the value has more backslashes still
        ended = re.compile(rf"(?<!\\){re.escape(quote)}").search(text, at)
        return len(text) if ended is None else ended.start()
    first = at
    while at < len(text):
        if text[at] == "\\":
            at += 2
        elif text[at] != quote:
            at += 1
        elif at > first and text[at + 1 : at + 2] == quote:
            at += 2
        else:
            return at
    return len(text)


def _found(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return at if match is None else match.end()


# --- by the function that it is a key of


def _keys(text: str) -> list[tuple[int, int]]:
    """All arguments but the first, which is what is encrypted. One pass, however deep the calls are."""
    calls = {call.end() - 1 for call in _KEYED.finditer(text)}
    found: list[tuple[int, int]] = []
    at = 0
    for call in sorted(calls):
        if call < at:
            continue
        open_brackets: list[int | None] = []  # of a call with a key: where its second argument begins, -1 before that
        at = call
        while at < len(text):
            character = text[at]
            if character in "'\"`":
                at = _end_of_quoted(text, at + 1, character)
            elif character in "([{":
                open_brackets.append(-1 if at in calls else None)
            elif character in ")]}":
                start = open_brackets.pop()
                if start is not None and start >= 0:
                    found.append((start, at))
                if not open_brackets:
                    break
            elif character == "," and open_brackets[-1] == -1:
                open_brackets[-1] = at + 1 + (text[at + 1 : at + 2] == " ")
            at += 1
        found += [(start, len(text)) for start in open_brackets if start is not None and start >= 0]
    return sorted(found)


# --- in what was read from JSON


def parse_redacted(line: str) -> Any:
    """The JSON of one line, without secrets: neither under keys that name one nor inside any text."""
    held = json.loads(line)
    return without_secrets(held) if _is_suspect(line) else held


def without_secrets(value: Any) -> Any:
    """Lists and dicts are changed in place. Not recursive: plans are as deep as the user's loops are long."""
    root = [value]
    todo: list[tuple[Any, bool]] = [(root, False)]
    while todo:
        held, secret = todo.pop()
        for key, item in list(held.items() if isinstance(held, dict) else enumerate(held)):
            hidden = secret or (isinstance(key, str) and names_secret(key))
            if isinstance(item, str):
                held[key] = HIDDEN if hidden and item else redact(item)
            elif isinstance(item, dict | list):
                todo.append((item, hidden))
    return root[0]
