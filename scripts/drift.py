"""Print what the official SDKs know and this package does not: models, fields, control requests, options, names.

python scripts/drift.py                      fetches the newest TypeScript package with `npm pack`
python scripts/drift.py --typescript PATH    reads an unpacked package, a .tgz, or a single .d.ts
python scripts/drift.py --check              exits with 1 if anything is missing

The TypeScript package's declarations describe the wire: each object type is compared with the model for the same
message, control request or hook, or of the same name. Its functions, constants and the methods of its `Query` are known
if a public name here is the same in snake_case, or if the page about the official SDKs explains them; the options of
its functions for sessions are compared with parameters. The Python package is compared if it is installed. What is
left out on purpose is listed in `LEFT_OUT`.
"""

import argparse
import dataclasses
import enum
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
import tarfile
import tempfile
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

import claude_agent_py
from claude_agent_py import Client, ClientOptions, sessions, wire
from claude_agent_py._connection import controls
from claude_agent_py.wire.base import WireModel

NPM_PACKAGE = "@anthropic-ai/claude-agent-sdk"
ROOT = Path(__file__).parent.parent
EXPLAINED = (ROOT / "docs" / "coming-from-the-official-sdk.md", ROOT / "docs" / "sessions.md")

LEFT_OUT: Mapping[str, str] = {
    "Options.abortController": "cancel the worker, or call `Client.abort`",
    "Options.executable": "the CLI is a native program",
    "Options.executableArgs": "the CLI is a native program",
    "Options.spawnClaudeCodeProcess": "pass a `Transport` to `Client`",
    "Options.stderr": "`on_stderr`",
    "Options.pathToClaudeCodeExecutable": "`cli_path`",
    "Options.continue": "`continue_conversation`",
    "Options.outputFormat": "`output_format` takes the JSON Schema itself",
    "Options.mcpServersDelivery": "always through stdin",
    "Options.pluginDelivery": "always flags",
    "Options.toolConfig": "`question_preview_format`",
    "ControlResponse.request_id": "a part of `ControlSuccess` and `ControlFailure`",
    "ControlResponse.subtype": "a part of `ControlSuccess` and `ControlFailure`",
    "ControlResponse.pending_elicitation_requests": "a part of `ControlSuccess` and `ControlFailure`",
    "ControlResponse.pending_permission_requests": "a part of `ControlSuccess` and `ControlFailure`",
    "ControlResponse.pending_user_dialog_requests": "a part of `ControlSuccess` and `ControlFailure`",
    "AbortError": "`asyncio.CancelledError`, `trio.Cancelled`",
    "Query.supportedCommands": "`client.info.commands`",
    "Query.supportedAgents": "`client.info.agents`",
    "Query.setMcpPermissionModeOverride": "`client.mcp.set_permission_mode`",
    "Query.updateSettings": "`client.settings.update`",
    "Query.reconnectMcpServer": "`client.mcp.reconnect`",
    "Query.toggleMcpServer": "`client.mcp.toggle`",
    "Query.usage_EXPERIMENTAL_MAY_CHANGE_DO_NOT_RELY_ON_THIS_API_YET": "`client.usage.session`",
    "GetSessionMessagesOptions.includeSystemMessages": "none, as the page says",
    "ListSessionsOptions.includeProgrammatic": "none, as the page says",
    "ImportSessionToStoreOptions.batchSize": "none, as the page says",
    "*.dir": "`directory`",
    "*.sessionStore": "`StoredSessions`",
    "ElicitationRequest.serverName": "`mcp_server_name`",
    "HookCallbackMatcher.hooks": "the TypeScript package's own; on the wire it has ids",
    "keep_alive": "`KeepAlive`, which is not a message",
    "set_color": "CLI 2.1.332 does not know it; `client.control`",
    "set_has_subscribers": "for a CLI that joins its deltas, which needs a variable of a host; `client.control`",
    "SDKControlMcpStatusRequest.liveReply": "for the event stream of cloud sessions",
    **{f"{name}.data": "`raw`" for name in ("MirrorErrorMessage", "TaskNotificationMessage", "TaskProgressMessage")},
    **{f"{name}.data": "`raw`" for name in ("TaskStartedMessage", "TaskUpdatedMessage")},
    "TaskUpdatedMessage.status": "`patch.task_status`",
    "AssistantMessage.stop_reason": "`message.stop_reason`",
    "ClaudeAgentOptions.load_timeout_ms": "`load_timeout`, in seconds",
    "Options.loadTimeoutMs": "`load_timeout`, in seconds",
    "ClaudeAgentOptions.add_dirs": "`additional_directories`",
    "ClaudeAgentOptions.max_buffer_size": "`Limits.max_line_bytes`",
    "ClaudeAgentOptions.stderr": "`on_stderr`",
    "ClaudeAgentOptions.debug_stderr": "`on_stderr`",
}
"""What is not here on purpose, and what to use instead."""

OTHER_NAMES: Mapping[str, str] = {"importSessionToStore": "import_session"}
"""The functions for sessions that have another name here."""

TAGS = ("type", "subtype", "hook_event_name")
"""Fields that say which model it is."""


# The declarations ------------------------------------------------------------------------------------------------


_DECLARATION = re.compile(r"^(?:export )?(?:declare )?(?:type|interface) (\w+)(?:<[^=>{]*>)?\s*", re.MULTILINE)
_EXPORT = re.compile(r"^export declare (function|const|class) (\w+)", re.MULTILINE)
_METHOD = re.compile(r"^ {4}(\w+)\??\(", re.MULTILINE)
_SESSION_FUNCTION = re.compile(
    r"^export declare function (\w*(?:Session|Subagent)\w*)\([^;]*?_options\?: (\w+)", re.MULTILINE
)


@dataclass
class Declared:
    """An object type of a `.d.ts` file."""

    name: str
    fields: dict[str, str] = field(default_factory=dict)
    """The types of its fields, by name; of a union, those of all its members. Names of word lists are replaced."""

    def literals(self, name: str) -> list[str]:
        """Return the string literals that a field is declared as, or nothing if it may be another value."""
        told = self.fields.get(name, "").strip()
        return re.findall(r"'([^']*)'", told) if re.fullmatch(r"\|?\s*('[^']*'\s*\|?\s*)+", told) else []


def read_declarations(text: str) -> dict[str, Declared]:
    """Return the object types in the text of a `.d.ts` file, by name."""
    text = _without_comments(text)
    bodies = {
        found[1]: text[found.end() : _end_of_statement(text, found.end())] for found in _DECLARATION.finditer(text)
    }
    words = {name: body.strip("=; \n") for name, body in bodies.items() if words_in(body.strip("=; \n"))}

    def spelled_out(told: str) -> str:
        return re.sub(r"\b[A-Z]\w+\b", lambda found: words.get(found[0], found[0]), told)

    fields = {name: {one: spelled_out(told) for one, told in _fields(name, bodies, frozenset())} for name in bodies}
    return {name: Declared(name, fields[name]) for name in bodies}


def read_exports(text: str) -> dict[str, str]:
    """Return the exported functions, constants and classes in the text of a `.d.ts` file, with their kind."""
    return {found[2]: found[1] for found in _EXPORT.finditer(_without_comments(text))}


def read_methods(text: str, interface: str) -> list[str]:
    """Return the methods of an interface in the text of a `.d.ts` file."""
    text = _without_comments(text)
    found = re.search(rf"^export declare interface {interface}\b[^{{]*", text, re.MULTILINE)
    return _METHOD.findall(text[found.end() : _end_of_statement(text, found.end())]) if found else []


def read_session_functions(text: str) -> dict[str, str]:
    """Return the functions for sessions in the text of a `.d.ts` file, with the types of their options."""
    return {found[1]: found[2] for found in _SESSION_FUNCTION.finditer(_without_comments(text))}


def words_in(told: str) -> set[str]:
    """Return the string literals that a type consists of, besides null and lists of them; none for another type."""
    bare = re.sub(r"\[\]$|^\(|\)$|\b(?:null|undefined)\b", "", told.strip().removesuffix("[]"))
    return set(re.findall(r"'([^']*)'", bare)) if re.fullmatch(r"[\s|]*(?:'[^']*'[\s|]*)+", bare) else set()


def _without_comments(text: str) -> str:
    strings_or_comments = re.compile(r"'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"|/\*.*?\*/|//[^\n]*", re.DOTALL)
    return strings_or_comments.sub(lambda found: "" if found[0].startswith("/") else found[0], text)


def _end_of_statement(text: str, start: int) -> int:
    """Return where an alias (up to its semicolon) or an interface (up to its brace) ends."""
    is_alias, depth = text.startswith("=", start), 0
    for position in range(start, len(text)):
        depth += {"{": 1, "(": 1, "[": 1, "}": -1, ")": -1, "]": -1}.get(text[position], 0)
        if depth == 0 and text[position] == (";" if is_alias else "}"):
            return position + 1
    return len(text)


def _fields(name: str, bodies: Mapping[str, str], above: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield the fields of a type and of those that it consists of."""
    body = bodies.get(name)
    if body is None or name in above:
        return
    outside: list[str] = []
    for part, is_object in _parts(body):
        if is_object:
            yield from _object_fields(part)
        else:
            outside.append(part)
    around = " ".join(outside)
    if "|" in around or "=>" in around:
        return  # a union of other types, which are compared themselves, or a function
    words = re.sub(r"\w+\s*<[^<>]*>|\w+\s*\[[^\]]*\]|'[^']*'", " ", around)
    for other in re.findall(r"\b[A-Z]\w+", words):
        yield from _fields(other, bodies, above | {name})


def _parts(body: str) -> Iterator[tuple[str, bool]]:
    """Split a type into the insides of its outermost braces (True) and what is between them."""
    depth, start = 0, 0
    for position, char in enumerate(body):
        if char == "{":
            if depth == 0:
                yield body[start:position], False
                start = position + 1
            depth += 1
        elif char == "}":
            depth -= 1
            if depth == 0:
                yield body[start:position], True
                start = position + 1
    yield body[start:], False


def _object_fields(inside: str) -> Iterator[tuple[str, str]]:
    depth, start = 0, 0
    for position, char in enumerate(f"{inside};"):
        depth += {"{": 1, "(": 1, "[": 1, "<": 1, "}": -1, ")": -1, "]": -1}.get(char, 0)
        if char == ">" and inside[position - 1] != "=":
            depth -= 1
        if char == ";" and depth == 0:
            found = re.match(
                r"\s*(?:readonly\s+)?['\"]?([\w$-]+)['\"]?\??\s*:\s*(.*)", inside[start:position], re.DOTALL
            )
            if found:
                yield found[1], found[2]
            start = position + 1


# Ours ------------------------------------------------------------------------------------------------------------


def our_models() -> list[type[WireModel]]:
    """Return every model of the wire."""
    for module in pkgutil.walk_packages(wire.__path__, f"{wire.__name__}."):
        importlib.import_module(module.name)
    found: list[type[WireModel]] = []
    waiting: list[type[WireModel]] = [WireModel]
    while waiting:
        for model in waiting.pop().__subclasses__():
            if model.__module__.startswith(wire.__name__):
                found.append(model)
                waiting.append(model)
    return list(dict.fromkeys(found))


def wire_names(model: type[WireModel]) -> set[str]:
    """Return the names of a model's fields on the wire."""
    tags = {name for name in ("type", "subtype", "hook_event_name") if isinstance(getattr(model, name, None), str)}
    return {one.encode_name for one in msgspec.structs.fields(model)} | tags


class Ours:
    """Our models, by what they stand for and by name."""

    def __init__(self) -> None:
        self.by_key: dict[tuple[str, ...], list[type[WireModel]]] = {}
        self.by_name: dict[str, list[type[WireModel]]] = {}
        for model in our_models():
            self.by_name.setdefault(plain(model.__name__), []).append(model)
            for key in self._keys(model):
                self.by_key.setdefault(key, []).append(model)

    @staticmethod
    def _keys(model: type[WireModel]) -> Iterator[tuple[str, ...]]:
        subtype, event = (_tag(model, name) for name in ("subtype", "hook_event_name"))
        kind = _tag(model, "type") or (subtype and _inherited_type(model))
        if event:
            yield "hook", event
        elif kind and subtype:
            yield "message", kind, subtype
        elif kind and "messages" in model.__module__:
            yield "message", kind
        elif subtype:
            yield "control", subtype


def _tag(model: type, name: str) -> str | None:
    value = vars(model).get(name)
    return value if isinstance(value, str) else None


def _inherited_type(model: type) -> str | None:
    """Return the type that all messages with a subtype have from their base."""
    value = getattr(model, "type", None)
    return value if isinstance(value, str) else None


def plain(name: str) -> str:
    """Return a name as both sides write it."""
    name = (
        re.sub(r"^(?:SDKControl|SDK)", "", name).replace("HookInput", "Input").replace("HookSpecificOutput", "Output")
    )
    return re.sub(r"(?:Message|Response|Reply)$", "", name).lower()


def snake(name: str) -> str:
    """Return a name in snake_case."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace("-", "_").lower()


# Comparing -------------------------------------------------------------------------------------------------------


def key_of(declared: Declared) -> tuple[str, ...] | None:
    """Return what an object type stands for on the wire, or None if only its name says so."""
    event = declared.literals("hook_event_name")
    if len(event) == 1:
        return "hook", event[0]
    kind, subtype = declared.literals("type"), declared.literals("subtype")
    if kind == ["system"] and len(subtype) == 1:
        return "message", "system", subtype[0]
    if len(kind) == 1 and re.search(r"(?:Message|Event|Result\w*)$", declared.name):
        return "message", kind[0]
    if len(subtype) == 1 and not kind and declared.name.endswith("Request"):
        return "control", subtype[0]
    return None


def compare_wire(declarations: Iterable[Declared], ours: Ours) -> Iterator[tuple[str, str]]:
    """Yield the section and the text of each difference."""
    sent = sent_without_model()
    for declared in declarations:
        key = key_of(declared)
        models = ours.by_key.get(key, []) if key else ours.by_name.get(plain(declared.name), [])
        if key and not models and key[-1] not in LEFT_OUT and not (key[0] == "control" and key[1] in sent):
            yield f"{key[0]}s without a model", f"{'/'.join(key[1:])} ({declared.name})"
        if not models or not declared.fields:
            continue
        yield from compare_fields(declared.name, declared.fields, models)


def sent_without_model() -> set[str]:
    """Return the control requests that the package sends as a name and fields."""
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "claude_agent_py").rglob("*.py"))
    return set(re.findall(r"\.(?:control|ask)\(\s*\"(\w+)\"", "\n".join(sources)))


def compare_fields(owner: str, fields: Mapping[str, str], models: list[type[WireModel]]) -> Iterator[tuple[str, str]]:
    """Yield the fields that no model has, also those of objects within an object."""
    known = set().union(*map(wire_names, models))
    for name, told in fields.items():
        if not {name, snake(name)} & known:
            if f"{owner}.{name}" not in LEFT_OUT:
                yield "fields without a model's", f"{owner}.{name} -> {models[0].__name__}"
            continue
        yield from compare_words(f"{owner}.{name}", words_in(told), models, name)
        inner = dict(pair for part, is_object in _parts(told) if is_object for pair in _object_fields(part))
        inside = list(dict.fromkeys(one for model in models for one in _models_in_field(model, name)))
        if inner and inside:
            yield from compare_fields(f"{owner}.{name}", inner, inside)


def compare_words(
    where: str, theirs: Iterable[str], models: list[type[WireModel]], name: str
) -> Iterator[tuple[str, str]]:
    """Yield the words that a field may be, and that those listed for it here lack."""
    ours = set().union(*(_words_of(model, name) for model in models))
    for word in sorted(set(theirs) - ours) if ours and name not in TAGS else ():
        if f"{where}={word}" not in LEFT_OUT:
            yield "words that a field may be", f"{where}: '{word}' -> {models[0].__name__}"


def _words_of(model: type[WireModel], name: str) -> set[str]:
    found: set[str] = set()
    waiting: list[Any] = [
        one.type for one in msgspec.structs.fields(model) if {one.encode_name, one.name} & {name, snake(name)}
    ]
    while waiting:
        kind = waiting.pop()
        if typing.get_origin(kind) is typing.Literal:
            found |= {word for word in typing.get_args(kind) if isinstance(word, str)}
        elif inspect.isclass(kind) and issubclass(kind, enum.Enum):
            found |= {str(member.value) for member in kind}
        else:
            waiting += typing.get_args(kind)
    return found


def _models_in_field(model: type[WireModel], name: str) -> Iterator[type[WireModel]]:
    waiting: list[Any] = [one.type for one in msgspec.structs.fields(model) if one.encode_name in (name, snake(name))]
    while waiting:
        kind = waiting.pop()
        if inspect.isclass(kind) and issubclass(kind, WireModel):
            yield kind
        waiting += typing.get_args(kind)


def compare_options(name: str, fields: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the options that are not here."""
    for option in fields:
        if snake(option) not in ClientOptions.model_fields and f"{name}.{option}" not in LEFT_OUT:
            yield "options", f"{name}.{option}"


def compare_exports(exports: Mapping[str, str], methods: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the functions, constants, classes and methods of `Query` that are not here and not explained."""
    names, explained = {name.lower() for name in _public_names()}, _explained()
    for name, kind in exports.items():
        spellings = {snake(name), name.lower()}
        if not spellings & names and not {name, *spellings} & explained and name not in LEFT_OUT:
            yield {"function": "functions", "const": "constants", "class": "classes"}[kind], name
    known = set(dir(Client)) | {name for group in _control_groups() for name in dir(group)}
    for name in methods:
        if snake(name) not in known and not {name, snake(name)} & explained and f"Query.{name}" not in LEFT_OUT:
            yield "methods of Query", name


def compare_session_options(
    functions: Mapping[str, str], declared: Mapping[str, Declared]
) -> Iterator[tuple[str, str]]:
    """Yield the options of functions for sessions that the functions here do not have."""
    for name, options in functions.items():
        ours = getattr(sessions, OTHER_NAMES.get(name, snake(name)), None)
        known = set(inspect.signature(ours).parameters) if ours is not None else set()
        for option in declared[options].fields if ours is not None and options in declared else ():
            if snake(option) not in known and not {f"{options}.{option}", f"*.{option}"} & set(LEFT_OUT):
                yield "options of functions for sessions", f"{name}({option})"


def _control_groups() -> list[type]:
    """Return the classes of `client.mcp`, `client.files`, ..."""
    modules = [
        importlib.import_module(one.name) for one in pkgutil.iter_modules(controls.__path__, f"{controls.__name__}.")
    ]
    return [one for module in modules for one in vars(module).values() if inspect.isclass(one)]


def _explained() -> set[str]:
    return set(re.findall(r"\w+", "\n".join(page.read_text(encoding="utf-8") for page in EXPLAINED)))


def compare_python() -> Iterator[tuple[str, str]]:
    """Yield what the official Python package has and this one does not."""
    try:
        official: Any = importlib.import_module("claude_agent_sdk")
    except ImportError:
        print("The official Python package is not installed: pip install claude-agent-sdk")
        return
    print(f"claude-agent-sdk (Python) {official.__version__}")
    yield from compare_options(
        "ClaudeAgentOptions", (one.name for one in dataclasses.fields(official.ClaudeAgentOptions))
    )
    ours = Ours()
    names, explained = set(map(plain, _public_names())), _explained()
    for name in official.__all__:
        thing = getattr(official, name)
        models = ours.by_name.get(plain(name), [])
        if plain(name) not in names and not models and name not in explained:
            yield "names of the Python package that docs/coming-from-the-official-sdk.md does not explain", name
        elif models and inspect.isclass(thing):
            known = {one.name for model in models for one in msgspec.structs.fields(model)}
            known |= set().union(*map(wire_names, models)) | {n for model in models for n in dir(model)}
            for one, kind in _python_fields(thing).items():
                if not {one, snake(one)} & known and f"{name}.{one}" not in LEFT_OUT:
                    yield "fields of the Python package", f"{name}.{one} -> {models[0].__name__}"
                yield from compare_words(f"{name}.{one}", _literals(kind), models, one)


def _python_fields(kind: type) -> dict[str, Any]:
    if not dataclasses.is_dataclass(kind) and not typing.is_typeddict(kind):
        return {}
    try:
        return typing.get_type_hints(kind)
    except NameError:  # a type that is imported for type checkers only
        return dict.fromkeys(getattr(kind, "__annotations__", {}), str)


def _literals(kind: Any) -> set[str]:
    if typing.get_origin(kind) is typing.Literal:
        return {word for word in typing.get_args(kind) if isinstance(word, str)}
    return set().union(*map(_literals, typing.get_args(kind)))


def _public_names() -> set[str]:
    names = set(dir(claude_agent_py))
    for module in pkgutil.iter_modules(claude_agent_py.__path__):
        if not module.name.startswith("_"):
            names |= set(dir(importlib.import_module(f"claude_agent_py.{module.name}")))
    return names


# Finding the packages --------------------------------------------------------------------------------------------


def declarations_in(path: Path) -> dict[str, str]:
    """Return the texts of the `.d.ts` files of a package, by file name."""
    if path.is_file() and path.suffix == ".tgz":
        with tarfile.open(path) as archive:
            members = [one for one in archive.getmembers() if one.isfile() and one.name.endswith(".d.ts")]
            opened = [(Path(one.name).name, archive.extractfile(one)) for one in members]
            return {name: file.read().decode() for name, file in opened if file is not None}
    paths = [path] if path.is_file() else sorted(path.glob("*.d.ts"))
    return {one.name: one.read_text(encoding="utf-8") for one in paths}


def fetch(folder: Path) -> Path | None:
    """Fetch the newest TypeScript package, or return None if it cannot be had."""
    try:
        subprocess.run(
            ["npm", "pack", "--silent", NPM_PACKAGE],
            cwd=folder,
            check=True,
            capture_output=True,
            timeout=300,
            text=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        print(f"The TypeScript package cannot be fetched ({error}); give its path with --typescript")
        return None
    return next(folder.glob("*.tgz"), None)


def compare_typescript(path: Path) -> Iterator[tuple[str, str]]:
    """Yield what the TypeScript package has and this one does not."""
    print(f"{NPM_PACKAGE} (TypeScript): {path.name}")
    texts = declarations_in(path)
    declared: dict[str, Declared] = {}
    exports: dict[str, str] = {}
    methods: list[str] = []
    functions: dict[str, str] = {}
    for name in sorted(texts):
        if name not in ("bridge.d.ts", "browser-sdk.d.ts"):  # other programs' interfaces
            declared |= read_declarations(texts[name])
            exports |= read_exports(texts[name])
            methods += read_methods(texts[name], "Query")
            functions |= read_session_functions(texts[name])
    yield from compare_wire(declared.values(), Ours())
    yield from compare_exports(exports, dict.fromkeys(methods))
    yield from compare_session_options(functions, declared)
    yield from compare_options("Options", declared["Options"].fields if "Options" in declared else ())


def main() -> int:
    """Print what is missing, and return the exit status."""
    parser = argparse.ArgumentParser(description="Print what the official SDKs know and this package does not.")
    parser.add_argument("--typescript", type=Path, help="the TypeScript package: a folder, a .tgz or a .d.ts file")
    parser.add_argument("--check", action="store_true", help="exit with 1 if anything is missing")
    parser.add_argument("--no-python", action="store_true", help="leave out the Python package")
    arguments = parser.parse_args()
    missing: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        package = arguments.typescript or fetch(Path(folder))
        found = [*(compare_typescript(package) if package else ()), *(() if arguments.no_python else compare_python())]
    for section, text in dict.fromkeys(found):
        missing.setdefault(section, []).append(text)
    for section, texts in missing.items():
        print(f"\n{section} ({len(texts)})")
        print("\n".join(f"  {text}" for text in sorted(texts)))
    if not missing:
        print("\nNothing is missing.")
    return 1 if missing and arguments.check else 0


if __name__ == "__main__":
    sys.exit(main())
