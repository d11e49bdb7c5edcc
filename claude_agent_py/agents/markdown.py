"""Read and write agents as Markdown files with YAML front matter, as in `.claude/agents`.

The CLI silently ignores unknown fields and invalid files. This module raises errors with line numbers for them.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

from claude_agent_py._configuration import ConfigModel, inner_text, snake_case
from claude_agent_py._errors import OptionsError
from claude_agent_py._untrusted import check_depth, read_bytes
from claude_agent_py.wire.base import JSONObject

FENCE: Final = "---"
MOST_BYTES: Final = 4 * 1024 * 1024

MOST_VALUES: Final = 100_000
"""Maximum number of values in front matter; YAML aliases can expand to billions."""
LISTS: Final = frozenset({"tools", "disallowed_tools", "skills"})
"""Fields that may be written as a comma-separated string."""

Unknown: TypeAlias = Literal["error", "ignore"]
Definition = TypeVar("Definition", bound=ConfigModel)


def read_definition(
    source: str | Path, model: type[Definition], *, unknown: Unknown = "error"
) -> tuple[str, Definition]:
    """Return the name and the definition of an agent, from a file (a `Path`) or from its text (a `str`)."""
    if isinstance(source, Path):
        return _Reader(str(source), source.stem, model, unknown).read(read_text(source))
    return _Reader("agent", "agent", model, unknown).read(source)


def write_definition(name: str, fields: JSONObject) -> str:
    """Return the text of a file that defines an agent with these fields. Requires the extra `agents`."""
    header = {"name": check_name(name), **fields}
    prompt = header.pop("prompt")
    text = _import_yaml().safe_dump(header, sort_keys=False, allow_unicode=True, width=10_000)
    return f"{FENCE}\n{text}{FENCE}\n\n{prompt.strip()}\n"


def read_text(path: Path) -> str:
    """Return the text of a file, with plain line ends."""
    try:
        return read_bytes(path, most_bytes=MOST_BYTES)[0].decode("utf-8-sig").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionsError(f"{path} cannot be read: {error}", option="agents") from error


def _import_yaml() -> Any:
    try:
        import yaml
    except ImportError as error:
        raise ImportError("agent files require PyYAML: pip install pyyaml") from error
    return yaml


class _Reader(Generic[Definition]):
    """Parses one text; `place` names it in errors."""

    def __init__(self, place: str, default_name: str, model: type[Definition], unknown: Unknown) -> None:
        self._place = place
        self._default_name = default_name
        self._model = model
        self._aliases = {field.alias: name for name, field in model.model_fields.items() if field.alias}
        self._unknown = unknown

    def read(self, text: str) -> tuple[str, Definition]:
        header_text, prompt = self._split(text.replace("\r\n", "\n"))
        values, lines = self._parse(header_text)
        fields = {self._get_field_name(key): (key, value) for key, value in values.items()}
        _, name = fields.pop("name", ("name", self._default_name))
        if "prompt" in fields and self._unknown == "error":
            raise self._build_error("the prompt belongs below the front matter, not in it", lines["prompt"])
        normalized = {field: (key, _normalize_value(field, value)) for field, (key, value) in fields.items()}
        known = self._select_known(normalized)
        try:
            return check_name(name), self._model(**known, prompt=prompt.strip())
        except OptionsError as error:
            problem = inner_text(error)
            option = error.option or ""
        wrong = self._get_field_name(option.partition(".")[2] or "name")
        line = next((line for key, line in lines.items() if self._get_field_name(key) == wrong), 1)
        raise self._build_error(problem, line)

    def _split(self, text: str) -> tuple[str, str]:
        match = re.match(rf"{FENCE}[ \t]*\n(.*?)^{FENCE}[ \t]*(?:\n|\Z)", text, re.DOTALL | re.MULTILINE)
        if match is None:
            what = "the front matter is not closed" if text.startswith(FENCE) else "the front matter is missing"
            raise self._build_error(
                f"{what}: an agent file starts with fields such as `name` between two lines {FENCE!r}", 1
            )
        return match.group(1), text[match.end() :]

    def _parse(self, text: str) -> tuple[dict[str, Any], Mapping[str, int]]:
        """Return the values of the front matter, and the line of each."""
        yaml = _import_yaml()
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

    def _parse_header(self, yaml: Any, text: str) -> tuple[dict[str, Any], Mapping[str, int]]:
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

    def _check_size(self, values: dict[Any, Any]) -> None:
        try:
            check_depth(values, MOST_VALUES)
        except ValueError as error:
            raise self._build_error(f"the front matter cannot be read: {error}", 1) from None

    def _select_known(self, fields: Mapping[str, tuple[str, Any]]) -> dict[str, Any]:
        """Return the values by field name. Unknown names are kept for the definition to reject, or ignored."""
        known = self._model.model_fields.keys()
        readable = known - {"prompt"}
        values: dict[str, Any] = {}
        for field, (key, value) in fields.items():
            if value is not None and (field in readable or self._unknown == "error"):
                values[field if field in known else key] = value
        return values

    def _get_field_name(self, key: str) -> str:
        return self._aliases.get(key) or snake_case(key)

    def _build_error(self, what: str, line: int) -> OptionsError:
        return OptionsError(f"{self._place}, line {line}: {what}", option="agents")


def _normalize_value(field: str, value: Any) -> Any:
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


def check_name(name: Any) -> str:
    """Return the name of an agent if the CLI accepts it. Raises OptionsError for other names."""
    if not isinstance(name, str):
        raise OptionsError(f"the name of an agent must be a string, not {type(name).__name__}", option="agents")
    if not name.strip() or name != name.strip():
        problem = "must not be empty or begin or end with a space"
    elif name.startswith("-"):
        problem = "must not begin with '-': the CLI drops the agent"
    elif "," in name or not name.isprintable():
        problem = "must not contain a comma or a control character"
    else:
        return name
    raise OptionsError(f"the agent name {name!r} {problem}", option="agents")
