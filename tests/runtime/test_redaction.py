"""Secrets are hidden in text, however it spells them; what only looks similar stays."""

import importlib
import json
import logging
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from html import escape
from urllib.parse import quote, quote_plus

import pytest
from asking_cli import asking

from claude_agent_py._base.display import displayable_json
from claude_agent_py._base.redaction import hide_secrets, redact, without_secrets
from claude_agent_py.tools import ToolServer, tool

SECRET = "hunter2hunter2"
SPELLINGS = [
    "API_KEY = {}",
    "DB_PASSWORD: {}",
    "export TOKEN='{}'",
    "TOKEN := {}",
    "$env:GITHUB_TOKEN = '{}'",
    "note: password={}",
    "password: {}",
    'password = "{}"',
    "api_key={}",
    '"api_key": "{}"',
    "'api_key' : '{}'",
    '\\"password\\": \\"{}\\"',
    'SECRET_KEY="ab\\"{}"',
    'SECRET="first\n{}\nlast"',
    "https://host/path?access_token={}&x=1",
    "https://host/path?x=1&client_secret={}",
    "https://user:{}@host/path",
    "postgres://user:a@{}@host/db",
    "x-api-key: {}",
    "X-Vault-Token: {}",
    "Authorization: Basic {}",
    "authorization: token {}",
    "Authorization: {}",
    "Cookie: theme=dark; session={}",
    "Set-Cookie: sid={}; Path=/",
    "curl -H 'Cookie: a={}' host",
    "curl -u user:{} host",
    "curl --user 'user:{}' host",
    "login --password {}",
    "login --password '{} x'",
    "login --token={}",
    "login --api-key {}",
    "mysql -u root -p{} db",
    "machine host login user password {}",
    "-----BEGIN RSA PRIVATE KEY-----\nMII{}\nMII\n-----END RSA PRIVATE KEY-----",
    "key: |\n  -----BEGIN PRIVATE KEY-----\n  MII{}",
    "- name: DB_PASSWORD\n  value: {}",
    '{{"name": "API_KEY", "value": "{}"}}',
    '{{\\"key\\": \\"API_KEY\\", \\"value\\": \\"{}\\"}}',
    '<add key="Password" value="{}"/>',
    "<password>{}</password>",
    "api_key: >-\n  {}\n  more",
    "client_secret: |\n  first\n\n  {}",
    "db_pass: {}",
    "signing_key = {}",
    "os.environ['API_KEY'] = '{}'",
    'config["password"] = "{}"',
    "password=b'{}'",
    "define('DB_PASSWORD', '{}');",
    '["X-Api-Key", "{}"]',
    "ENV SECRET_KEY {}",
    "setenv API_TOKEN {}",
    "set -gx API_TOKEN {}",
    "npm config set //registry.npmjs.org/:_authToken {}",
    "redis-cli -h host -a {} ping",
    "docker login -u user -p {}",
    "curl -b 'sid={}' host",
    "curl -d 'password={}' host",
    "ALTER USER u WITH PASSWORD '{}';",
    "https://host/#access_token={}",
    "redirect?to=%2Fx%3Ftoken%3D{}",
    "https://bucket/file?X-Amz-Signature={}&x=1",
    '["program", "--api-token", "{}"]',
    "['--password','{}']",
    "PASSWORD = '''{}'''",
    "TOKEN ?= {}",
    "TOKEN += {}",
    "TOKEN ::= {}",
    'send("Bearer {}")',
    "sshpass -p {} ssh host",
    "sqlcmd -S host -P {}",
    "my_pwd --pw={}",
    "hvs.{0}{0}",
    "sk-{0}{0}",
    "sk-ant-{}",
    "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\nMII{}",
    "Private-Lines: 1\nMII{}\nPrivate-MAC: 0",
    "kube: LS0tLS1CRUdJTi{0}{0}",
]
ESCAPES: dict[str, Callable[[str], str]] = {
    "JSON": lambda text: json.dumps({"stdout": f"first\n{text}"}),
    "JSON in JSON": lambda text: json.dumps([json.dumps({"stdout": f"\t{text}"})]),
    "JSON in JSON in JSON": lambda text: json.dumps([json.dumps([json.dumps({"stdout": text})])]),
    "JSON of PHP": lambda text: json.dumps({"stdout": text}).replace("/", "\\/"),
    "JSON of Go": lambda text: json.dumps({"a": text}).replace("&", r"\u0026").replace("<", r"\u003c"),
    "JSON of .NET": lambda text: json.dumps({"a": text}).replace('\\"', r"\u0022").replace("+", r"\u002B"),
    "a repr": lambda text: repr({"stdout": f"first\n{text}"}),
    "a repr of bytes": lambda text: repr(f"\r\n{text}".encode()),
    "a parameter of a URL": lambda text: f"https://host/?q={quote(text, safe='')}&x=1",
    "HTML": lambda text: f"<p>{escape(text)}</p>",
    "JSON in HTML": lambda text: escape(json.dumps({"stdout": f"\n{text}"})),
    "colours": lambda text: f"\x1b[0;32m{text}\x1b[0m",
    "colours in JSON": lambda text: json.dumps({"stdout": f"\x1b[1m{text}\x1b[m"}),
    "letters before": lambda text: f"密码{text}",
}
WORDS = ["password: {}", "  - db_password: {}", "client_secret={}", "export auth_token={}", "#!/bin/sh\npassword={}"]
"""Settings whose value is a word."""
HARMLESS = [
    "password: string",
    "password: text",
    "    token: SecretStr",
    "api_key = settings",
    "login(password=password, token=access_token)",
    "password=user_password",
    '["password", "username"]',
    'add_argument("--token", "-t")',
    'option("--password", "password")',
    "token: |\nnext",
    "- name: PORT\n  value: 8080",
    "<token_count>100</token_count>",
    "set -e PIPE",
    "git config set user.name Ada1",
    "max_tokens: 5",
    "max_tokens=4096",
    "token_count=3",
    "TOKEN_COUNT=12345",
    '{"usage": {"input_tokens": 100, "cache_read_input_tokens": 12345}}',
    '"token_type": "bearer"',
    "password: str",
    "token: Optional[str] = None",
    "token=token",
    "api_key=os.environ['X']",
    "api_key = settings.api_key",
    "password = getpass()",
    "password_file=/run/secrets/x1",
    "the --token option is required",
    "use --password FILE",
    "sets the 'Cookie:' header of the request",
    "MAX_NUM_HEADERS = 128",
    'ALLOW_HEADERS = "Access-Control-Allow-Headers"',
    "C:\\new\\tokens and 100%25 of a\\tb &amp; c",
    "Authorization: required",
    "docker run -u 1000:1000 image",
    "tokenizer=cl100k_base",
    "monkey: banana12",
    "http://example.com/a:b",
]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_secret_is_hidden_however_it_is_spelt(spelling: str) -> None:
    hidden = hide_secrets(f"before\n{spelling.format(SECRET)}\nafter")
    assert SECRET not in hidden
    assert "***" in hidden
    assert hidden.startswith("before\n")


@pytest.mark.parametrize("how", ESCAPES)
def test_a_secret_is_hidden_however_its_text_is_escaped(how: str) -> None:
    texts = [
        *(spelling.format(SECRET) for spelling in SPELLINGS),
        f"ghp_{SECRET}23",
        f"https://hooks.slack.com/services/T/{SECRET}",
    ]
    hidden = {text: hide_secrets(ESCAPES[how](text)) for text in texts}
    assert {text: shown for text, shown in hidden.items() if SECRET in shown} == {}


@pytest.mark.parametrize(
    "spelling", ["API_KEY={}", '{{"password": "{}"}}', "login --token {}", "https://me:{}@host/", "Cookie: a={}"]
)
def test_a_long_secret_is_hidden_to_its_end(spelling: str) -> None:
    assert SECRET not in hide_secrets(spelling.format("a1" * (1000 if "@" in spelling else 10_000) + SECRET))


def test_names_in_an_endless_line_cost_the_same_each() -> None:
    text = f"{' ' * 4_000_000}{'pass=f( ' * 100_000}"
    began = time.process_time()
    assert hide_secrets(text) == text
    assert time.process_time() - began < 3  # looking for the start of the line of each takes twice as long


def test_a_quoted_secret_whose_end_is_cut_off_is_hidden() -> None:
    assert hide_secrets(f'a\n{{"password": "{SECRET} and') == 'a\n{"password": "***'
    assert hide_secrets(f"password = '{SECRET} and\nb") == "password = '***\nb"


@pytest.mark.parametrize("spelling", WORDS)
def test_a_word_that_a_setting_has_as_its_secret_is_hidden(spelling: str) -> None:
    assert hide_secrets(spelling.format("correcthorse")) == spelling.format("***")


def test_json_that_lists_names_and_values_has_no_secrets() -> None:
    listed = {
        "vars": [{"name": "API_KEY", "value": SECRET}, {"name": "PORT", "value": "80"}],
        "headers": [["X-Api-Key", SECRET], {"name": "X", "value": SECRET}],
        "env": [f"A={SECRET}"],
        "args": ["run", "--api-key", SECRET, "--token-file", "/path", "--token", "--quiet"],
        "Env": {"A": SECRET},
        "x-api-key": {"value": SECRET},
        "X-Vault-Token": SECRET,
        "password": 12345678,
        "max_tokens": 12345678,
    }
    assert without_secrets(listed) == {
        "vars": [{"name": "API_KEY", "value": "***"}, {"name": "PORT", "value": "80"}],
        "headers": [["X-Api-Key", "***"], {"name": "X", "value": "***"}],
        "env": ["A=***"],
        "args": ["run", "--api-key", "***", "--token-file", "/path", "--token", "--quiet"],
        "Env": {"A": "***"},
        "x-api-key": {"value": "***"},
        "X-Vault-Token": "***",
        "password": "***",
        "max_tokens": 12345678,
    }
    assert without_secrets({f"key ghp_{SECRET}23?": "yes"}, hide=hide_secrets) == {"key ***?": "yes"}


@pytest.mark.parametrize("text", HARMLESS)
def test_text_similar_to_a_secret_stays(text: str) -> None:
    assert hide_secrets(text) == text


@pytest.mark.anyio
async def test_a_secret_in_the_exception_of_a_tool_reaches_neither_the_model_nor_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @tool
    async def fetch() -> str:
        """Fetch."""
        raise ValueError(f"https://host/?api_key={SECRET} says \x1b[31mno")

    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "fetch", "arguments": {}}}
    with caplog.at_level(logging.DEBUG):
        async with asking(mcp_servers={"s": ToolServer("s", tools=[fetch])}) as cli:
            reply = await cli.ask({"subtype": "mcp_message", "server_name": "s", "message": message})
    assert "api_key=***" in str(reply)
    assert "ValueError" in caplog.text
    assert SECRET not in caplog.text + str(reply)
    assert "\x1b" not in caplog.text


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("https://user:hunter2@db.example/x", "https://***@db.example/x"),
        ("GET https://example.com:8080/a?b=c failed", "GET https://example.com:8080/a?b=c failed"),
        ("Authorization: Bearer abc.def-123456", "Authorization: ***"),
        ("key sk-ant-api03-abcdefgh_123 is wrong", "key *** is wrong"),
        ("https://x/?api_key=abcd1234&b=1", "https://x/?api_key=***&b=1"),
        ("{'password': 'hunter22', 'n': 1}", "{'password': '***', 'n': 1}"),
        ("token=ghp_0123456789abcdefABCD", "token=***"),
        ("AWS AKIAIOSFODNN7EXAMPLE", "AWS ***"),
        ("jwt eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSM", "jwt ***"),
        ("no such file: /home/me/monkey.txt", "no such file: /home/me/monkey.txt"),
        ("the key 'city' is missing", "the key 'city' is missing"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----", "***"),
    ],
)
def test_secrets_are_redacted(text: str, clean: str) -> None:
    assert redact(text) == clean


def test_secrets_of_the_environment_are_blanked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_TOKEN", "correct horse battery")
    monkeypatch.setenv("SHORT_KEY", "abc")
    monkeypatch.setenv("CITY", "Heidelberg")

    assert redact("abc: correct horse battery in Heidelberg") == "abc: <SERVICE_TOKEN> in Heidelberg"


@pytest.mark.parametrize("write", [str, repr, json.dumps, quote, quote_plus, lambda secret: quote(secret, safe="")])
def test_a_secret_of_the_environment_is_hidden_however_it_is_escaped(
    write: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = 'a/"bä" c\\d#e\nf'
    monkeypatch.setenv("SERVICE_TOKEN", secret)
    monkeypatch.setenv("DATABASE_URL", f"postgres://me:{quote(secret[::-1], safe='')}@host/db")
    for value, placeholder in ((secret, "<SERVICE_TOKEN>"), (secret[::-1], "<DATABASE_URL>")):
        assert redact(f"no {write(value)}").replace("'", "").replace('"', "") == f"no {placeholder}"


@pytest.mark.parametrize("before", ["", "u", "me", "me:", "user:"])
@pytest.mark.parametrize("encode", [b64encode, urlsafe_b64encode])
def test_a_secret_of_the_environment_is_hidden_in_base64(
    before: str, encode: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "plain?words~of>mine")
    for after in ("", "\n", ", and more"):
        coded = encode(f"{before}plain?words~of>mine{after}".encode()).decode()
        start, _, end = redact(coded).partition("<SOME_API_KEY>")
        seen = coded.removeprefix(start).removesuffix(end)
        assert len(coded) - len(seen) <= len(encode(before.encode())) + len(encode(after.encode())) + 4


def test_a_secret_of_the_environment_is_hidden_however_deeply_it_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = 'a/"b" c\\d+e\nf&<g>'
    monkeypatch.setenv("SERVICE_TOKEN", secret)
    for how, write in ESCAPES.items():
        assert "<SERVICE_TOKEN>" in redact(write(f"no {secret}")), how


def test_json_is_escaped_and_keeps_its_value() -> None:
    value = {"text": "ä😀\x1b[2J\x9b31m\u202e\x07\r\ud800"}
    text = displayable_json(value)
    assert all(char.isprintable() or char in "\n\t" for char in text)
    assert "ä😀" in text
    assert json.loads(text) == value


def test_a_block_that_is_only_about_secrets_stays() -> None:
    about = "token_policy: |\n  rotate them weekly\nafter"
    assert redact(about) == about
    assert redact("token: |\n  ghs-some-secret\nafter") == "token: |\n  ***\nafter"
    assert redact("token: {a}") == "token: {a}"


@pytest.mark.parametrize("name", ["claude_agent_py", "claude_agent_py.tools", "claude_agent_py.compat"])
def test_no_logger_shows_a_secret(name: str, caplog: pytest.LogCaptureFixture) -> None:
    importlib.import_module(name)
    importlib.import_module("claude_agent_py.compat.options")
    try:
        raise ValueError(f"https://me:{SECRET}@host")
    except ValueError as error:
        logging.getLogger(name).exception("it failed: %s", error)
    assert "https://***@host" in caplog.text
    assert SECRET not in caplog.text


def test_no_text_in_a_log_record_looks_like_another_record(caplog: pytest.LogCaptureFixture) -> None:
    forged = "a reply\nERROR root: all is lost\r\nERROR root: again\u2028ERROR root: and again"
    try:
        raise ValueError(forged)
    except ValueError as error:
        logging.getLogger("claude_agent_py").exception("it failed: %s", error)
    assert caplog.text.count("all is lost") == 2  # in the message and in the traceback
    assert [line for line in caplog.text.splitlines()[1:] if not line.startswith("  ")] == []
    assert caplog.records[0].exc_info is None  # a control character was replaced


def test_a_log_record_with_wrong_arguments_is_left_to_the_handler() -> None:
    logger = logging.getLogger("claude_agent_py")
    record = logger.makeRecord(logger.name, logging.ERROR, __file__, 1, "%d is no number", ("x",), None)
    assert logger.filter(record)
    assert record.args == ("x",)
