"""Hide secrets in JSON and in text that leaves the program: logs, recordings, traces, timelines.

A secret is recognised by its name, by its form, or because it is the value of a secret environment variable. The forms
are those of the rules of gitleaks (8.30) and detect-secrets (1.5).
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

HIDDEN: Final = "***"

_MAPS_OF_SECRETS: Final = frozenset({"env", "headers", "variables", "environment"})
"""Objects whose values are all hidden."""

_SECRET_NAME: Final = re.compile(
    r"(?i:secret|passw|passphrase|api_?key|private_?key|credential|cookie|authorization|bearer"
    r"|(?:^|_|[a-z])token$|(?:^|_)token_|(?:^|_)auth$)"
    # Names of variables. As names of JSON fields, their lower-case forms are common.
    r"|AUTH(?!OR)|(?:^|_)(?:PAT|PASS|PW|PWD|CREDS|DSN|SAS|WEBHOOK)(?:_|$)|KEYS?(?:_|$)"
    r"|DATABASE_UR[IL]|CONN(?:ECTION)?_?STR"
)
_NOT_SECRET: Final = frozenset({"PWD", "OLDPWD"})

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

_FORMS: Final = (
    ("sk-ant-", r"sk-ant-[\w-]+"),
    *((word, rf"(?<![\w-]){word}(?=[\w-]{{0,40}}\d)[\w-]{{16,}}") for word in _WORDY),
    *((f"{word}.", rf"(?<![\w.]){word}\.[\w.-]{{24,}}") for word in ("SG", "hvs", "hvb", "hvr")),
    ("eyJ", r"(?<![\w-])eyJ[\w-]{8,}+\.[\w-]{8,}+\.?[\w-]*"),
    (
        "-----BEGIN",
        r"(?s)-----BEGIN[ A-Z0-9_-]{0,99}PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END[ A-Z0-9_-]{0,99}-----|\Z)",
    ),
    ("://", r"(?<=://)[^\s:@/\"'<>\\]{0,99}+:[^\s@/\"'<>\\]{1,256}+(?=@)"),
    ("aws_", r"(?<=aws_secret_access_key = )[\w/+=]{16,}|(?<=aws_session_token = )[\w/+=]{16,}"),
    ("LS0tLS1CRUdJTi", r"LS0tLS1CRUdJTi[\w/+=]{16,}"),  # keys in PEM, in base64 once more, as in a kubeconfig
    ("sig=", r"(?<=[?&]sig=)[\w%+/=]{16,}"),
)
"""Patterns of other secrets, each after a text that it contains. None backtracks far, because tools write the texts."""
_HEADER: Final = r"(?i)\b(?:bearer|basic) [\w.~+/=-]{8,}"
_ASSIGNMENT: Final = (
    r"""(?<![\w-])(?P<name>[A-Za-z_][\w-]{0,99}+)(?P<sign>=|\\{0,4}["'][ ]?:[ ]?)"""
    r"""(?:(?P<mark>\\{0,4}["'])(?:(?!(?P=mark))[^\n]){4,4096}+(?P=mark)|(?!["'$<{(\[])[^\s"'\\]{4,4096}+)"""
)
"""A variable as `env` prints it and scripts set it, or a member of JSON."""

SHORTEST_SECRET: Final = 8
"""The minimum length of a variable's value in characters. Shorter values occur in other texts by chance."""
_SHORTEST_LINE: Final = 16
"""The minimum length of a line of a variable's value that is hidden on its own."""


def without_secrets(value: object, name: str = "", hide: Callable[[str], str] | None = None) -> Any:
    """Return JSON with values hidden whose names say that they are secret. `hide` changes the other texts."""
    if isinstance(value, dict):
        if name in _MAPS_OF_SECRETS:
            return dict.fromkeys(value, HIDDEN)
        return {key: without_secrets(item, key, hide) for key, item in value.items()}
    if isinstance(value, list):
        return [without_secrets(item, name, hide) for item in value]
    if not isinstance(value, str) or not value:
        return value
    if is_secret_name(name):
        return HIDDEN
    return value if hide is None else hide(value)


def is_secret_name(name: str) -> bool:
    """Return whether the name of a variable or a field says that its value is secret."""
    return _SECRET_NAME.search(name) is not None and name not in _NOT_SECRET


def hide_secrets(text: str, hidden: str = HIDDEN) -> str:
    """Return text without keys and tokens of common services, credentials in URLs and headers, and secret variables."""
    for prefix in _PREFIXES:  # looking for a text is much faster than matching a pattern
        if prefix in text:
            text = re.sub(_TOKEN.format(re.escape(prefix)), hidden, text)
    for part, pattern in _FORMS:
        if part in text:
            text = re.sub(pattern, hidden, text)
    lower = text.lower()
    if "bearer " in lower or "basic " in lower:
        text = re.sub(_HEADER, hidden, text)
    if "=" in text or ":" in text:
        text = re.sub(_ASSIGNMENT, lambda found: _hide_assigned(found, hidden), text)
    return text


def _hide_assigned(found: "re.Match[str]", hidden: str) -> str:
    name, sign, mark = found["name"], found["sign"], found["mark"] or ""
    is_named = name.isupper() if sign == "=" else bool(mark)
    return f"{name}{sign}{mark}{hidden}{mark}" if is_named and is_secret_name(name) else found[0]


def find_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the secrets among environment variables, each with a placeholder, the longest first.

    A secret of several lines, such as a key, is also found line by line. A URL with a password is a secret.
    """
    found: dict[str, str] = {}
    for name, value in environ.items():
        has_password = re.search(r"://[^\s:@/]*:(?P<password>[^\s@]+)@", value)
        if has_password or (is_secret_name(name) and not os.path.exists(value)):
            lines = [line.strip() for line in value.splitlines() if not line.startswith("-----")]
            parts = [value, json.dumps(value)[1:-1], *(line for line in lines if len(line) >= _SHORTEST_LINE)]
            parts += [has_password["password"]] if has_password else []
            found |= {part: f"<{name}>" for part in parts if len(part) >= SHORTEST_SECRET}
    return dict(sorted(found.items(), key=lambda item: -len(item[0])))


def hide_values(text: str, secrets: Iterable[tuple[str, str]]) -> str:
    """Return text with each secret replaced by its placeholder."""
    for secret, placeholder in secrets:
        if secret in text:
            text = text.replace(secret, placeholder)
    return text
