"""Read agents from Markdown files with YAML front matter, alone and in folders, as in `.claude/agents`.

The CLI silently ignores unknown fields and invalid files. This module raises errors with line numbers for them.
"""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final, Literal, TypeAlias

from claude_agent_py._base.bounded_reading import check_depth, read_bytes
from claude_agent_py._base.configuration import inner_text, snake_case
from claude_agent_py._base.errors import OptionsError
from claude_agent_py.agents.definition import FENCE, AgentDefinition, check_name
from claude_agent_py.formatting.encoders import import_yaml
from claude_agent_py.wire.base import JSONObject

MOST_BYTES: Final = 4 * 1024 * 1024

MOST_VALUES: Final = 100_000
"""Maximum number of values in front matter; YAML aliases can expand to billions."""
LISTS: Final = frozenset({"tools", "disallowed_tools", "skills"})
"""Fields that may be written as a comma-separated string."""

Unknown: TypeAlias = Literal["error", "ignore"]


@dataclass(frozen=True)
class AgentFile:
    """The agent in a file."""

    name: str
    definition: AgentDefinition


def load_agents(directory: str | Path, *, unknown: Unknown = "error") -> dict[str, AgentDefinition]:
    """Read all agents in a directory (`*.md`, including subdirectories) by name. Blocks while reading.

    A `README.md` without front matter is skipped.
    `unknown` sets how unknown fields are handled. Requires the extra `agents`.

    Raises:
        OptionsError: The directory is missing, a file is invalid, or two define the same agent. The message names the
            file and line.
        ImportError: PyYAML is not installed.
    """
    root = Path(os.path.expanduser(directory))
    if not root.is_dir():
        raise OptionsError(f"no such directory: {root}", option="agents")
    found: dict[str, tuple[Path, AgentDefinition]] = {}
    for path in sorted(root.rglob("*.md")):
        if path.name.lower() == "readme.md" and not _read_text(path).startswith(FENCE):
            continue
        agent = read_agent(path, unknown=unknown)
        if agent.name in found:
            raise OptionsError(f"{path} and {found[agent.name][0]} both define {agent.name!r}", option="agents")
        found[agent.name] = (path, agent.definition)
    return {name: definition for name, (_, definition) in found.items()}


def read_agent(source: str | Path, *, unknown: Unknown = "error") -> AgentFile:
    """Read an agent from a file (a `Path`) or from its text (a `str`).

    Without a `name` in the front matter, a file's agent is named after the file and a text's agent is named `agent`.

    Raises:
        OptionsError: The source does not define an agent; the message names the file and line.
        ImportError: PyYAML is not installed.
    """
    if isinstance(source, Path):
        return _Reader(str(source), source.stem, unknown).read(_read_text(source))
    return _Reader("agent", "agent", unknown).read(source)


def _read_text(path: Path) -> str:
    """Return the text of a file, with plain line ends."""
    try:
        return read_bytes(path, most_bytes=MOST_BYTES)[0].decode("utf-8-sig").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionsError(f"{path} cannot be read: {error}", option="agents") from error


class _Reader:
    """Parses one text; `place` names it in errors."""

    def __init__(self, place: str, default_name: str, unknown: Unknown) -> None:
        self._place = place
        self._default_name = default_name
        self._unknown = unknown

    def read(self, text: str) -> AgentFile:
        header_text, prompt = self._split(text.replace("\r\n", "\n"))
        values, lines = self._parse(header_text)
        fields = {_get_field_name(key): (key, value) for key, value in values.items()}
        _, name = fields.pop("name", ("name", self._default_name))
        if "prompt" in fields and self._unknown == "error":
            raise self._build_error("the prompt belongs below the front matter, not in it", lines[fields["prompt"][0]])
        normalized = {field: (key, _normalize_value(field, value)) for field, (key, value) in fields.items()}
        known = self._select_known(normalized)
        try:
            return AgentFile(check_name(name), AgentDefinition(**known, prompt=prompt.strip()))
        except OptionsError as error:
            problem = inner_text(error)
            option = error.option or ""
        wrong = _get_field_name(option.partition(".")[2] or "name")
        line = next((line for key, line in lines.items() if _get_field_name(key) == wrong), 1)
        raise self._build_error(problem, line)

    def _split(self, text: str) -> tuple[str, str]:
        match = re.match(rf"{FENCE}[ \t]*\n(.*?)^{FENCE}[ \t]*(?:\n|\Z)", text, re.DOTALL | re.MULTILINE)
        if match is None:
            what = "the front matter is not closed" if text.startswith(FENCE) else "the front matter is missing"
            raise self._build_error(
                f"{what}: an agent file starts with fields such as `name` between two lines {FENCE!r}", 1
            )
        return match.group(1), text[match.end() :]

    def _parse(self, text: str) -> tuple[JSONObject, Mapping[str, int]]:
        """Return the values of the front matter, and the line of each."""
        yaml = import_yaml()
        # PyYAML raises ValueError for an invalid date, for example.
        invalid = (yaml.YAMLError, ValueError, RecursionError)
        try:
            return self._parse_header(yaml, text)
        except invalid as error:
            problem = getattr(error, "problem", error)
            mark = getattr(error, "problem_mark", None)
        # The CLI also retries with quoted values.
        with suppress(*invalid):
            return self._parse_header(yaml, _quote_values(text))
        raise self._build_error(f"invalid YAML: {problem}", mark.line + 2 if mark else 1)

    def _parse_header(self, yaml: ModuleType, text: str) -> tuple[JSONObject, Mapping[str, int]]:
        loader = yaml.SafeLoader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return {}, {}
            if not isinstance(node, yaml.MappingNode):
                raise self._build_error(
                    "the front matter must consist of fields, `name: value`", node.start_mark.line + 2
                )
            lines: dict[str, int] = {}
            for key, _ in node.value:
                name = str(key.value)
                # Marks count from 0, and the fence is line 1.
                line = key.start_mark.line + 2
                if name in lines:
                    raise self._build_error(f"duplicate field {name}, first in line {lines[name]}", line)
                lines[name] = line
            values = loader.construct_mapping(node, deep=True)
            self._check_size(values)
            return {str(key): value for key, value in values.items()}, lines
        finally:
            loader.dispose()

    def _check_size(self, values: Mapping[object, object]) -> None:
        try:
            check_depth(values, MOST_VALUES)
        except ValueError as error:
            raise self._build_error(f"the front matter cannot be read: {error}", 1) from None

    def _select_known(self, fields: Mapping[str, tuple[str, object]]) -> JSONObject:
        """Return the values by field name. Unknown names are kept for the definition to reject, or ignored."""
        known = AgentDefinition.model_fields.keys()
        readable = known - {"prompt"}
        values: JSONObject = {}
        for field, (key, value) in fields.items():
            if value is not None and (field in readable or self._unknown == "error"):
                values[field if field in known else key] = value
        return values

    def _build_error(self, what: str, line: int) -> OptionsError:
        return OptionsError(f"{self._place}, line {line}: {what}", option="agents")


def _get_field_name(key: str) -> str:
    aliases = {field.alias: name for name, field in AgentDefinition.model_fields.items()}
    return aliases.get(key) or snake_case(key)


def _normalize_value(field: str, value: object) -> object:
    """Normalize the looser forms that files allow."""
    if field in LISTS:
        # As in the CLI, an empty `tools:` means no tools, not all tools.
        if value is None:
            return []
        # Like the CLI, split at commas and spaces outside parentheses.
        names = re.findall(r"(?:\([^)]*\)|[^,\s(])+", value) if isinstance(value, str) else value
        return None if field == "tools" and isinstance(names, list) and "*" in names else names
    if field == "description" and isinstance(value, str):
        # The CLI escapes line breaks as `\n`.
        return value.replace("\\n", "\n")
    return value


def _quote_values(text: str) -> str:
    """Quote the values of simple lines that YAML would misread, such as `description: Use it when: ...`."""

    def quote(match: re.Match[str]) -> str:
        value = match.group(2).replace("\\", "\\\\").replace('"', '\\"')
        return f'{match.group(1)}"{value}"'

    return re.sub(r"^([A-Za-z_]\w*:[ \t]+)(?![\"'|>\[{])(\S.*?)[ \t]*$", quote, text, flags=re.MULTILINE)
