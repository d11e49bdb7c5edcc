"""Hide secrets in JSON and in text that leaves the program: logs, recordings, traces, timelines.

* `without_secrets` hides, in JSON, what the names of its fields and options say.
* `hide_values` hides known secrets in text, such as those of the environment (`find_secrets`).
* `hide_secrets` hides what looks like a secret in text: tokens that begin as those of a service do (`_PREFIXES`), what
  shows by its form or its place in a command or a header (`_PATTERNS`), and what is assigned to a secret name
  (`_find_assigned`).
* `redact` does both to the text of an error, and is less careful with what is assigned (`_ASSIGNED`).

The functions for text also look at what is behind escapes (`_undo_escapes`). `is_secret_name` decides about names. The
forms are those of the rules of gitleaks (8.30) and detect-secrets (1.5). No pattern backtracks far, because tools write
the texts.
"""

import json
import os
import re
import sys
from base64 import b64encode
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import unescape
from itertools import pairwise
from typing import Any, Final
from urllib.parse import quote, quote_plus, unquote

HIDDEN: Final = "***"

# Names ---------------------------------------------------------------------------------------------------------------

_SECRET_NAME: Final = re.compile(
    r"(?i:secret|passw|passphrase|credential|cookie|authorization|bearer"
    r"|(?:api|private|signing|encryption|access|account|master|shared|subscription)_?key"
    r"|(?:^|_|[a-z])token$|(?:^|_)token_|(?:^|_)auth$|(?:db|user|admin|root|smtp|mail|ftp|ssh|login)_?pass$|^pass$)"
    # Names of variables. As names of JSON fields, their lower-case forms are common.
    r"|AUTH(?!OR)|(?:^|_)(?:PAT|PASS|PW|PWD|CREDS|DSN|SAS|WEBHOOK)(?:_|$)|(?:CUSTOM|OTLP(?:_[A-Z]+)?)_HEADERS$|KEYS?(?:_|$)"
    r"|DATABASE_UR[IL]|CONN(?:ECTION)?_?STR"
)
"""The part of a name that says so, after `-` became `_`."""
_ABOUT_SECRETS: Final = re.compile(
    r"(?i)(?:^|_)(?:stop|pad|eos|bos|unk|mask|next|special)_tokens?|(?:^|_)(?:max|min|num|count|total|used?|has|is|no|needs?|requires?)_|tokens?_(?:count|limit|type|usage|budget)"
    r"|_(?:count|limit|type|name|file|path|dir|url|uri|ids?|at|in|ttl|expir\w*|length|size|usage|budget|policy|prompt"
    r"|field|env|var|hash_algo\w*|fn|func\w*|callback|handler|class|provider|manager|required|enabled)$"
)
"""Names, in lower case, of what is not the secret itself."""
_HAS_NUMBERS: Final = re.compile("(?i)passw|secret|pass$|pwd")
"""Names of secrets that may be numbers."""
_MAPS_OF_SECRETS: Final = frozenset({"env", "headers", "cookies", "variables", "environment"})
"""Objects whose values are all hidden."""

# Forms ---------------------------------------------------------------------------------------------------------------

_PREFIXES: Final = (
    *("sk-proj-", "sk-svcacct-", "sk-admin-", "sk_live_", "sk_prod_", "rk_live_", "rk_prod_", "whsec_"),
    *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "glcbt-", "gldt-", "glft-", "glffct-", "glimt-"),
    *("glagent-", "gloas-", "glptt-", "glrt-", "glsoat-", "GR1348941", "ATATT3", "ATCTT3", "sq0atp-", "sq0csp-"),
    *("xoxa-", "xoxb-", "xoxe-", "xoxe.", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xapp-", "xwfp-"),
    *("hooks.slack.com/services/", "AKIA", "ASIA", "ABIA", "ACCA", "ABSK", "bedrock-api-key-", "AIza", "ya29."),
    *("GOCSPX-", "dop_v1_", "doo_v1_", "dor_v1_", "dp.pt.", "dp.st.", "dp.sa.", "pypi-AgEI", "rubygems_", "CLOJARS_"),
    *("AKCp", "dckr_pat_", "shpat_", "shpca_", "shppa_", "shpss_", "xkeysib-", "PMAK-", "lin_api_", "pscale_tkn_"),
    *("pscale_oauth_", "pscale_pw_", "sntrys_", "sntryu_", "glsa_", "NRAK-", "AGE-SECRET-KEY-1", "HRKU-", "fo1_"),
    *("fm1r_", "fm2_", "tskey-", "nvapi-", "figd_", "dt0c01.", "sha256~", "AccountKey=", "SharedAccessKey="),
)
"""How tokens of common services begin."""
_TOKEN: Final = r"(?<![A-Za-z0-9]){}[\w.~+/=%-]{{16,}}"  # noqa: S105 - a pattern
_WORDY: Final = (
    *("sk-", "sk_", "rk_", "hf_", "npm_", "ops_", "ntn_", "secret_", "api_org_", "gsk_", "xai-", "r8_", "sbp_", "sgp_"),
    *("rdme_", "pul-", "pplx-", "tvly-"),
)
"""Beginnings that are followed by a digit in a token, and often by words otherwise."""
_END: Final = r"""[^\n"'\\]"""
"""A character of a header, which a quotation mark may end, as in `curl -H`."""
_PATTERNS: Final = (
    # Tokens, keys and URLs.
    ("sk-ant-", r"sk-ant-[\w-]+"),
    *((word, rf"(?<![\w-]){word}(?=[\w-]{{0,40}}\d)[\w-]{{16,}}") for word in _WORDY),
    *((f"{word}.", rf"(?<![\w.]){word}\.[\w.-]{{24,}}") for word in ("SG", "hvs", "hvb", "hvr")),
    ("eyJ", r"(?<![\w-])eyJ[\w-]{8,}+\.(?:[\w-]{8,}+|\.)[\w.-]*"),
    (
        "-----BEGIN",
        r"(?s)-----BEGIN[ A-Z0-9_-]{0,99}PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END[ A-Z0-9_-]{0,99}-----|\Z)",
    ),
    ("---- BEGIN", r"(?s)---- BEGIN[ A-Z0-9]{0,99}PRIVATE KEY ----.*?(?:---- END[ A-Z0-9]{0,99}----|\Z)"),
    ("Private-Lines:", r"(?s)(?<=Private-Lines:).*?(?=Private-MAC|\Z)"),
    ("://", r"(?<=://)[^\s:@/\"'<>\\]{0,999}+:[^\s/\"'<>\\]{1,4096}(?=@)|(?<=://)[^\s:@/\"'<>\\]{20,4096}+(?=@)"),
    # A key of letters alone would pass for a name in code.
    ("aws_", r"(?<=aws_secret_access_key = )[\w/+=]{16,}|(?<=aws_session_token = )[\w/+=]{16,}"),
    ("LS0tLS1CRUdJTi", r"LS0tLS1CRUdJTi[\w/+=]{16,}"),  # keys in PEM, in base64 once more, as in a kubeconfig
    ("sig=", r"(?<=[?&]sig=)[\w%+/=]{16,}"),  # also in capitals, which otherwise stand for a secret
    # Headers, whose values may have several words.
    *((f"{scheme} ", rf"(?i)\b{scheme} [\w.~+/=-]{{8,}}") for scheme in ("bearer", "basic")),
    ("cookie:", rf"(?i)(?P<keep>\bcookie: ?)[\w.$-]{{1,99}}={_END}{{1,8192}}+"),
    (
        "authorization:",
        r"(?i)(?P<keep>\bauthorization: ?)(?:(?:basic|bearer|token|digest|apikey|negotiate|aws4-hmac-sha256) "
        rf"{_END}{{1,8192}}+|(?=[^\s\"']*\d)[^\s\"']{{8,4096}}+)",
    ),
    # Arguments of commands, and SQL, XML, `.netrc`, and lists of names and values.
    (
        "--",
        r"""(?<![\w-])(?P<keep>--(?P<name>[A-Za-z][A-Za-z-]{1,60})(?:=|[ ]{1,4})(?P<mark>["']?))"""
        r"""(?![-$<{([])(?:(?<=["'])[^"'\n]{1,4096}+|[^\s"'`,;)]{1,4096}+)""",
    ),
    (
        "-",
        r"""(?P<keep>["']--?(?P<name>[A-Za-z][A-Za-z-]{1,60})["'][ ]{0,4},\s{0,40}["'])"""
        r"""(?![-$<{(]|[a-z_]+["'])(?:\\.|[^"'\\\n]){1,4096}+(?=["'])""",
    ),
    (" -u", r"""(?P<keep>\s-u[ ]?["']?(?!\d+:\d)[^\s:"'$]{1,99}:)(?!["'$])[^\s"']{1,256}+"""),
    ("-user", r"""(?P<keep>--(?:proxy-)?user[ =]["']?(?!\d+:\d)[^\s:"'$]{1,99}:)(?!["'$])[^\s"']{1,256}+"""),
    (
        " -p",
        r"""(?P<keep>\b(?:mysql|mysqldump|mysqladmin|mariadb|sshpass)\b[^\n|;&]{0,200}?\s-p)(?!["'$])[^\s"']{4,256}+""",
    ),
    ("sshpass", r"""(?P<keep>\bsshpass[ ]+-p[ ]+["']?)[^\s"'$]{1,256}+"""),
    (" password ", r"""(?P<keep>\blogin[ ]\S{1,99}\s{1,8}password[ ])\S{1,256}+"""),
    ("redis-cli", r"""(?P<keep>\bredis-cli\b[^\n|;&]{0,200}?\s-a[ ]+["']?)[^\s"'$]{1,256}+"""),
    (
        "login",
        r"""(?P<keep>\b(?:docker|podman|helm|az|oc)[ ][^\n|;&]{0,40}?login\b[^\n|;&]{0,100}?\s-p[ ]+["']?)"""
        r"""[^\s"'$]{1,256}+""",
    ),
    ("sqlcmd", r"""(?P<keep>\bsqlcmd\b[^\n|;&]{0,200}?\s-P[ ]*["']?)[^\s"'$]{1,256}+"""),
    ("curl", r"""(?P<keep>\bcurl\b[^\n|;&]{0,200}?\s(?:-b|--cookie)[ =]*["']?)(?=[^\s"'=]{1,99}=)[^"'\n]{1,4096}+"""),
    (
        "",
        r"""(?P<keep>(?<![\w-])(?:ENV|setenv|setx|set(?:[ ]-\w+)+|(?:config|configure)[ ]set)[ ]+"""
        r"""(?P<name>[A-Za-z_/][\w./:-]{1,99}+)[ ]+["']?)(?![-$<{("'=])[^\s"']{1,4096}+""",
    ),
    ("</", r"""(?P<keep><(?P<name>[A-Za-z_][\w.:-]{1,60})>\s{0,8})(?![\s<$])[^<>\n]{1,4096}+(?=</)"""),
    (
        "'",
        r"""(?i)(?P<keep>\b(?:with[ ]password|password|identified[ ]by)[ ]{1,4}')[^'\n]{1,256}+(?=')""",
    ),
    (
        "",
        r"""(?P<keep>(?<![\w-])(?:name|key|Name|Key)\\{0,4}["']?[ ]{0,4}[:=][ ]{0,4}"""
        r"""\\{0,4}["']?(?P<name>[A-Za-z_][\w.-]{1,99}+)"""
        r"""\\{0,4}["']?[\s,]{1,40}\\{0,4}["']?[Vv]alue\\{0,4}["']?[ ]{0,4}[:=][ ]{0,4}(?P<mark>\\{0,4}["'])?)"""
        r"""(?![\s$<{(\[])(?:(?<=["'])(?:\\.|[^"'\\\n]){1,4096}+|[^\s"'\\,;)}\]]{1,4096}+)""",
    ),
    (
        ",",
        r"""(?P<keep>["'](?P<name>[A-Za-z_][\w-]{1,60})["'][ ]{0,4},[ ]{0,4}["'])"""
        r"""(?=[^"'\n]*\d|Bearer |Basic )(?:\\.|[^"'\\\n]){1,4096}+(?=["'])""",
    ),
    # Parameters of URLs.
    (
        "=",
        r"""(?P<keep>[?&;#"'](?P<name>[\w.%-]{2,60})=)"""
        r"""(?:[^\s?&#;"'<>\\]|[?](?![\w.%-]{2,60}=)){1,4096}+""",
    ),
)
"""Patterns of other secrets, each after a text that it contains, which is in any case if it is in lower case here.
`keep` is not hidden. With a `name`, it is a secret if that says so (`_is_secret_argument`)."""
_OPTION_WORD: Final = re.compile(
    "a|an|and|are|arguments?|as|can|flag|for|if|in|instead|is|must|of|options?|or|parameter|requires|should|takes|the|to"
    "|value|was|when|where|which|with|without"
)
"""What follows the name of an option in a sentence."""

# Assignments ---------------------------------------------------------------------------------------------------------

_NAME: Final = (
    r"""(?<![\w?&-])(?P<name>[A-Za-z_][\w-]{0,99}+)"""
    r"""(?P<sign>\\{0,4}["']?\]?[ \t]{0,8}(?::{1,2}=|[?+]=|=>|->|=|:)(?![=/])[ \t]{0,8})"""
)
"""What `env` prints before a value, and scripts, settings, code and JSON have there."""
_VALUE: Final = (
    r"""(?s)[bBrRuU]{0,2}(?:(?P<mark>"{3}|'{3}|\\{0,4}["'])(?P<text>(?:(?!(?P=mark))(?:\\.|[^\\])){1,8192}+)(?=(?P=mark))"""
    r"""|(?P<open>\\{0,4}["'])(?P<line>(?=\S)(?:(?!(?P=open))(?:\\.|[^\\\n]))++))"""
    r"""|(?!["'$<{(\[])(?P<word>[^\s"'\\,;)}\]]{1,4096}+)"""
)
"""The line is a value whose end is far away or was cut off."""
_BLOCK: Final = (
    r"""[|>][-+0-9]{0,2}[ \t]*\n(?P<indent>[ \t]+)(?=\S)(?P<block>[^\n]*+(?:\n(?P=indent)[^\n]*+|\n[ \t]*+(?=\n))*+)"""
)
"""A block of text in YAML, after a name and a colon."""
_SETTING: Final = re.compile(r"(?m)^[ \t]*+(?:-[ ])?(?:export[ ])?[\w.-]++(?:=|:[ ]+)[a-z][a-z0-9_-]{3,}[ \t]*$")
"""A line of a settings file with a word as its value; in code, what follows is a type or an expression."""
_LONGEST_SETTING: Final = 400
_TYPES: Final = re.compile("bytes|bool(?:ean)?|text|object|number|unknown|float|varchar|char|keyword|any")
_NO_SECRET: Final = re.compile(
    r"(?i)true|false|null|none|nil|undefined|yes|no|on|off|required|optional|str(?:ing)?|x{3,}|\*+|\.+"
)
_NUMBER: Final = re.compile(r"[\d.,_]+[a-z]?")
_CODE: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|[A-Za-z_]+[0-9]?|[\w.]+[(\[].*")
"""An expression: a word, or the attribute of an object."""
_SHORTEST_VALUE: Final = 4
_SHORTEST_WORD: Final = 7
"""The minimum length of a value without quotes, which may be code."""
_ASSIGNED: Final = re.compile(
    r"((?:api|access|secret|private|auth|session)?[_-]?(?:key|token|secret|password|passwd|pwd|credential)s?"
    r"[\"']?\s*[=:]\s*[\"']?)[^\s\"'&,;)}\]]{4,}",
    re.IGNORECASE,
)
"""Values with a secret name, in upper and lower case."""

# Escapes -------------------------------------------------------------------------------------------------------------

_ESCAPES: Final[Sequence[tuple[str, str, Callable[[re.Match[str]], str]]]] = (
    ("\x1b", r"\x1b\[[0-9:;?]{0,40}[A-Za-z]", lambda _: ""),
    ("&", r"&(?:amp|lt|gt|quot|apos|#\d{1,7}|#x[0-9A-Fa-f]{1,6});", lambda found: unescape(found[0])),
    ("\\", r"(?s)\\(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|(.))", lambda found: _undo_backslash(*found.groups())),
    ("%", r"(?i)%(?:[c-f][0-9a-f](?:%[89ab][0-9a-f]){1,3}|[0-9a-f]{2})", lambda found: unquote(found[0])),
)
"""Escapes of terminals, HTML, JSON and code, and URLs: a text in them, their pattern, and what is written so."""
_CONTROLS: Final = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_MOST_ESCAPED: Final = 6
"""How many kinds and levels of escapes are undone, such as of JSON in JSON."""
_LONGEST_MATCH: Final = 4096
_REST: Final = r"""[^\s"'\\<>]*+"""
"""What follows a match of this length and belongs to it: few patterns match more, because tools write the texts."""

# Variables -----------------------------------------------------------------------------------------------------------

SHORTEST_SECRET: Final = 8
"""The minimum length of a variable's value in characters. Shorter values occur in other texts by chance."""
_SHORTEST_PART: Final = 16
"""The minimum length of a line or a word of a variable's value that is hidden on its own."""


def without_secrets(value: object, name: str = "", hide: Callable[[str], str] | None = None) -> Any:
    """Return JSON with values hidden whose names say that they are secret. `hide` changes names and other texts."""
    if isinstance(value, dict):
        named = next((each for key in ("name", "key") if isinstance(each := value.get(key), str)), name)
        hidden = {
            key: HIDDEN
            if name.lower() in _MAPS_OF_SECRETS
            else without_secrets(item, named if key == "value" else key, hide)
            for key, item in value.items()
        }
        return hidden if hide is None else {hide(key): item for key, item in hidden.items()}
    if isinstance(value, list):
        if name.lower() in _MAPS_OF_SECRETS:  # as a list of pairs, or of objects with a name and a value
            return [_hide_second(item) for item in value]
        before = [None, *value]
        return [
            HIDDEN if _takes_secret(option, item) else without_secrets(item, name, hide)
            for option, item in zip(before, value, strict=False)
        ]
    if type(value) in (int, float) and _HAS_NUMBERS.search(name):
        return HIDDEN
    if not isinstance(value, str) or not value:
        return value
    if is_secret_name(name):
        return HIDDEN
    return value if hide is None else hide(value)


def _takes_secret(option: object, value: object) -> bool:
    """Return whether a text in a list follows an option of a command that takes a secret, such as `--api-key`."""
    if not isinstance(option, str) or not isinstance(value, str) or not option.startswith("-") or value[:1] == "-":
        return False
    key = option.strip("-").replace("-", "_").lower()
    return is_secret_name(key) and not _ABOUT_SECRETS.search(key)


def _hide_second(pair: object) -> object:
    """Return the name in a pair of a list of variables or headers, with its value hidden; all of anything else."""
    if isinstance(pair, list) and len(pair) == 2:
        return [pair[0], HIDDEN]
    if isinstance(pair, dict):
        return {key: HIDDEN if key == "value" else item for key, item in pair.items()}
    return f"{pair.partition('=')[0]}={HIDDEN}" if isinstance(pair, str) and "=" in pair else HIDDEN


def is_secret_name(name: str) -> bool:
    """Return whether the name of a variable or a field says that its value is secret."""
    return _SECRET_NAME.search(name.replace("-", "_")) is not None and name != "PWD"


def hide_secrets(text: str, hidden: str = HIDDEN) -> str:
    """Return text without keys and tokens of common services, credentials in URLs and headers, and secret variables."""
    found = [
        (source(begin + start), source(begin + end), hidden)
        for plain, begin, source in _undo_escapes(text)
        for find in (_find_forms, _find_assigned)
        for start, end in find(plain)
    ]
    return _replace(text, found)


def _undo_escapes(text: str) -> Iterator[tuple[str, int, Callable[[int], int]]]:
    """Yield a text, and what it is around escapes when they are undone, one kind and one level after another.

    Each comes with its place, and a function that returns where a position is in the original text.
    """
    levels: list[tuple[list[int], list[int]]] = []

    def find_source(position: int) -> int:
        for ends, shifts in reversed(levels):
            position += shifts[bisect_right(ends, position)]
        return position

    yield text, 0, find_source
    while len(levels) < _MOST_ESCAPED:
        kind = next((kind for kind in _ESCAPES if kind[0] in text and re.search(kind[1], text)), None)
        if kind is None:
            return
        parts: list[str] = []
        done = length = 0
        ends, shifts = [], [0]
        for escape in re.finditer(kind[1], text):
            parts += [text[done : escape.start()], kind[2](escape)]
            length += escape.start() - done + len(parts[-1])
            done = escape.end()
            ends.append(length)
            shifts.append(done - length)
        levels.append((ends, shifts))
        text = "".join([*parts, text[done:]])
        for begin, end in _find_neighbours(ends):
            yield text[begin:end], begin, find_source


def _find_neighbours(positions: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the parts of a text that are near these positions."""
    begin = max(0, positions[0] - _LONGEST_MATCH)
    for one, other in pairwise([*positions, sys.maxsize]):
        if other - one > 2 * _LONGEST_MATCH:
            yield begin, one + _LONGEST_MATCH
            begin = other - _LONGEST_MATCH


def _undo_backslash(wide: str | None, narrow: str | None, char: str) -> str:
    code = wide or narrow
    return chr(int(code, 16)) if code else _CONTROLS.get(char, char)


def _replace(text: str, found: Iterable[tuple[int, int, str]]) -> str:
    """Return text with each part replaced; of parts that overlap, all by the text for the first one."""
    parts: list[str] = []
    done, find_rest = 0, re.compile(_REST).match
    for start, end, hidden in sorted(found, key=lambda part: (part[0], -part[1])):
        if end - start >= _LONGEST_MATCH and end > done and (rest := find_rest(text, end)):
            end = rest.end()  # the pattern stopped at its limit
        if start >= done and end > start:
            parts += [text[done:start], hidden]
        done = max(done, end)
    return "".join([*parts, text[done:]]) if parts else text


def _find_forms(text: str) -> Iterator[tuple[int, int]]:
    """Find what `_PREFIXES` and `_PATTERNS` describe."""
    for prefix in _PREFIXES:  # looking for a text is much faster than matching a pattern
        if prefix in text:
            yield from (found.span() for found in re.finditer(_TOKEN.format(re.escape(prefix)), text, re.ASCII))
    lower = text.lower()
    for part, pattern in _PATTERNS:
        if part in text or part in lower:
            for found in re.finditer(pattern, text, re.ASCII):
                groups = found.groupdict()
                start = found.end("keep") if "keep" in groups else found.start()
                if "name" not in groups or _is_secret_argument(groups["name"], text[start : found.end()]):
                    yield start, found.end()


def _is_secret_argument(name: str, value: str) -> bool:
    """Return whether an option or a parameter of a URL is secret by its name, and not a placeholder for a secret."""
    key = name.replace("-", "_").lower()
    is_secret = is_secret_name(key) or key in ("pw", "pwd", "sig") or key.endswith("signature")
    return is_secret and not (_ABOUT_SECRETS.search(key) or _OPTION_WORD.fullmatch(value.lower()) or value.isupper())


def _find_assigned(text: str) -> Iterator[tuple[int, int]]:
    """Find what is assigned to names that say that it is secret."""
    if not any(sign in text for sign in ("=", ":", "->")):
        return
    done, find_value, find_block = 0, re.compile(_VALUE).match, re.compile(_BLOCK).match
    for found in re.finditer(_NAME, text, re.ASCII):
        name, sign = found["name"], found["sign"]
        if found.start() < done or not _may_be_secret(name):
            continue
        block = find_block(text, found.end()) if sign.strip() == ":" else None
        if block is not None:
            if not _ABOUT_SECRETS.search(name.replace("-", "_").lower()):
                yield block.span("block")
                done = block.end()
            continue
        value = find_value(text, found.end())
        if value is None:
            continue
        kind = value.lastgroup or ""
        if _is_secret(found, value[kind], is_quoted=kind != "word"):
            yield value.span(kind)
            done = value.end()


def _may_be_secret(name: str) -> bool:
    return is_secret_name(name) or (name.lower() == "pwd" and name != "PWD")


def _is_secret(found: re.Match[str], value: str, *, is_quoted: bool) -> bool:
    """Return whether the value that is assigned to a name (`_NAME`) is a secret."""
    name, sign = found["name"], found["sign"]
    key = name.replace("-", "_")
    if _NO_SECRET.fullmatch(value) or (_NUMBER.fullmatch(value) and not _HAS_NUMBERS.search(key)):
        return False
    if name.isupper():
        return len(value) >= _SHORTEST_VALUE
    if _ABOUT_SECRETS.search(key):
        return False
    if is_quoted:
        return sign[0] in "\\\"'" or len(value) >= _SHORTEST_VALUE
    if "-" in name and sign.strip() == ":":  # a header
        return len(value) >= _SHORTEST_VALUE
    return (len(value) >= _SHORTEST_WORD and not _CODE.fullmatch(value)) or _is_setting(found, value)


def _is_setting(found: re.Match[str], value: str) -> bool:
    """Return whether an assignment is a line of a settings file, with a word as its value."""
    first = max(0, found.start() - _LONGEST_SETTING)
    start = found.string.rfind("\n", first, found.start()) + 1 or first
    is_line = _SETTING.match(found.string, start, start + _LONGEST_SETTING) is not None
    return is_line and not _TYPES.fullmatch(value) and not is_secret_name(value)


def redact(text: str) -> str:
    """Hide the values of secret environment variables, and what looks like a secret in the text of an error.

    Errors are not code, in which lower-case names of secrets are common, so it hides every value of such a name.
    """
    known = hide_secrets(hide_values(text, find_secrets(os.environ).items()))
    return _ASSIGNED.sub(rf"\1{HIDDEN}", known)


def find_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the secrets among environment variables, each with a placeholder, the longest first.

    A secret of several lines or words, such as a key or `Bearer ...`, is also found by its parts, and each secret as
    JSON, Python, URLs and base64 write it. A URL with a password is a secret.
    """
    found: dict[str, str] = {}
    for name, value in environ.items():
        has_password = re.search(r"://[^\s:@/]*:(?P<password>[^\s@]+)@", value)
        if has_password or (is_secret_name(name) and not os.path.exists(value)):
            lines = [line.strip() for line in value.splitlines() if not line.startswith("-----")]
            parts = [*_spell(value), *(part for part in (*lines, *value.split()) if len(part) >= _SHORTEST_PART)]
            parts += [has_password[1], *_spell(unquote(has_password[1]))] if has_password else []
            found |= {part: f"<{name}>" for part in parts if len(part) >= SHORTEST_SECRET}
    return dict(sorted(found.items(), key=lambda item: -len(item[0])))


def _spell(secret: str) -> list[str]:
    """Return how a secret is written: plainly, in JSON, in Python, in URLs, and in base64."""
    spelt = [secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1]]
    return [
        *spelt,
        *(quote(secret, safe, errors="replace") for safe in ("", "/")),
        quote_plus(secret, errors="replace"),
        *_encode_base64(secret.encode(errors="replace")),
    ]


def _encode_base64(secret: bytes) -> Iterator[str]:
    """Yield the characters of base64 that come from the secret alone, wherever in the data it begins."""
    for before in range(3):
        part = slice((8 * before + 5) // 6, 8 * (before + len(secret)) // 6)
        for extra in (b"+/", b"-_"):
            yield b64encode(bytes(before) + secret, extra).decode()[part]


def hide_values(text: str, secrets: Iterable[tuple[str, str]]) -> str:
    """Return text with each secret replaced by its placeholder."""
    secrets = list(secrets)
    found = [
        (source(begin + part.start()), source(begin + part.end()), placeholder)
        for plain, begin, source in _undo_escapes(text)
        for secret, placeholder in secrets
        if secret in plain
        for part in re.finditer(re.escape(secret), plain)
    ]
    return _replace(text, found)
