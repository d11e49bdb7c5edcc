"""Build the site into `site`: the guides, the examples, and the reference from the docstrings.

python scripts/build_site.py            builds it, with Zensical; any broken link is an error
python scripts/build_site.py --check    only looks for pages without a place and public names without a docstring
python scripts/build_site.py --version 0.2.1 --url https://example.org/sdk/
                                        builds it into `site/0.2`, for that address, beside the versions that are there

The guides are the Markdown files that code hosts show. Their links to other files of the repository become links to
pages, or plain text if there is none. Each page also exists as Markdown, for programs: `llms.txt` lists these files,
and `llms-full.txt` has all of them.
"""

import argparse
import ast
import importlib
import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import griffe

from claude_agent_py.observe import Timeline

ROOT: Final = Path(__file__).parent.parent
BUILD: Final = ROOT / "build"
PAGES: Final = BUILD / "pages"
SITE: Final = ROOT / "site"
PACKAGE: Final = "claude_agent_py"

SPECIAL: Final[Mapping[str, str]] = {
    "README.md": "index.md",
    "docs/index.md": "all-pages.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security-policy.md",
    "benchmarks/README.md": "benchmarks.md",
    "deploy/README.md": "deploy.md",
    "deploy": "deploy.md",
    "examples": "examples/index.md",
    "examples/notebook.ipynb": "examples/notebook.md",
}
"""The pages of files and folders outside of the guides, and of those with another name."""

DOORS: Final = (
    *(
        "errors",
        "history",
        "todo",
        "tasks",
        "permissions",
        "hooks",
        "tools",
        "agents",
        "sessions",
        "observe",
        "journal",
    ),
    *("messages", "options", "control", "formatting", "transport", "wire", "children", "pool", "retrying", "durable"),
    *("fleet", "serve", "acp", "testing", "cli", "", "runs", "compat"),
)
"""The public modules; the empty one is the package. A name that several of them export is described in the first."""

FENCED: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
COMMENT: Final = re.compile(r"^<!--.*?-->\n", re.MULTILINE | re.DOTALL)
TIMELINE: Final = re.compile(r"^<!-- timeline: (\S+) -->\n", re.MULTILINE)
"""Where a guide shows the timeline of a recording."""
LINK: Final = re.compile(r"(?P<image>!?)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])+)\]\((?P<target>[^)\s]+)\)")


class Problem(Exception):
    """What has to be mended before there is a site."""


# Guides ---------------------------------------------------------------------------------------------------------------


def find_sources() -> dict[str, str]:
    """Return the page for each file of the repository that has one. Both are relative paths."""
    guides = {f"docs/{path.name}": path.name for path in ROOT.glob("docs/*.md")}
    examples = {f"examples/{path.name}": f"examples/{path.stem}.md" for path in ROOT.glob("examples/*.py")}
    deployed = {path.relative_to(ROOT).as_posix(): "deploy.md" for path in ROOT.glob("deploy/*.*")}
    return {**guides, **examples, **deployed, **SPECIAL}


def convert(text: str, source: str, sources: Mapping[str, str]) -> str:
    """Return the Markdown of a file for its page: without comments, and with links to pages."""

    def replace(found: re.Match[str]) -> str:
        target, _, anchor = found["target"].partition("#")
        if not target or urlsplit(target).scheme:
            return found[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if found["image"]:
            return f"![{found['text']}]({path.removeprefix('docs/')})"
        page = sources.get(path)
        if page is None:
            if not (ROOT / path).exists():
                raise Problem(f"{source}: {found['target']} leads nowhere")
            return found["text"]
        link = posixpath.relpath(page, posixpath.dirname(sources[source]) or ".")
        return f"[{found['text']}]({link}{'#' * bool(anchor)}{anchor})"

    frame = r'<iframe class="timeline" title="The timeline of a session" src="timelines/\1.html"></iframe>\n'
    prose = COMMENT.sub("", TIMELINE.sub(frame, text))
    parts = [_indent(LINK.sub(replace, part)) for part in FENCED.split(prose)]
    fences = [*FENCED.findall(prose), ""]
    return "".join(part + fence for part, fence in zip(parts, fences, strict=True))


def _indent(text: str) -> str:
    """Indent the paragraphs of list items by four spaces and separate such items, as the site needs it."""
    lines: list[str] = []
    start = width = 0
    for line in text.splitlines(keepends=True):
        if found := re.match(r"(?:[-*]|\d+\.) +", line):
            if width and "" in map(str.strip, lines[start:]):
                lines.append("\n")
            start, width = len(lines), len(found[0])
        elif line.strip() and not line.startswith(" " * width):
            width = 0
        lines.append(" " * (4 - width) + line if width and line.strip() and not found else line)
    return "".join(lines)


def read_guides(sources: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each page that is a Markdown file, and its text."""
    for source, page in sources.items():
        if source.endswith(".md"):
            text = convert((ROOT / source).read_text(encoding="utf-8"), source, sources)
            yield page, text + "".join(_attached()) if source == "deploy/README.md" else text


def _attached() -> Iterator[str]:
    for path in sorted(ROOT.glob("deploy/*.*")):
        if path.suffix != ".md":
            language = "yaml" if path.suffix == ".yaml" else "ini"
            yield f"\n## {path.name}\n\n```{language}\n{path.read_text(encoding='utf-8')}```\n"


# Examples -------------------------------------------------------------------------------------------------------------


def read_printed() -> dict[str, list[Any]]:
    """Return parts of what the examples print, as their test requires."""
    tree = ast.parse((ROOT / "tests/test_examples.py").read_text(encoding="utf-8"))
    (table,) = (
        node.value
        for node in tree.body
        if isinstance(node, ast.AnnAssign)
        and ast.unparse(node.target) == "PRINTED"
        and isinstance(node.value, ast.Dict)
    )
    return {
        ast.literal_eval(name): [part.value for part in parts.elts if isinstance(part, ast.Constant)]
        for name, parts in zip(table.keys, table.values, strict=True)
        if name is not None and isinstance(parts, ast.List)
    }


def make_examples() -> Iterator[tuple[str, str]]:
    """Yield a page for each example, with its code and output, and an index."""
    printed = read_printed()
    rows = [
        "# Examples",
        "",
        "One idea per file. Each runs offline, against a scripted model.",
        "",
        "| example | |",
        "|---|---|",
    ]
    for path in sorted(ROOT.glob("examples/*.py")):
        code = path.read_text(encoding="utf-8")
        about = ast.get_docstring(ast.parse(code)) or ""
        summary = " ".join(about.split("\n\n")[0].split())
        title = path.stem.replace("_", " ").capitalize()
        rows.append(f"| [{title}]({path.stem}.md) | {summary} |")
        output = "\n".join(part.rstrip("\n") for part in printed.get(path.stem, []))
        yield (
            f"examples/{path.stem}.md",
            f"# {title}\n\n{summary}\n\n```console\n$ python examples/{path.name}\n```\n\n"
            + (f"It prints, among other things:\n\n```text\n{output}\n```\n\n" if output else "")
            + f"```python\n{code.rstrip()}\n```\n",
        )
    notebook = read_notebook(ROOT / "examples/notebook.ipynb")
    rows.append(f"| [Notebook](notebook.md) | {_heading(notebook)[1]} |")
    yield "examples/notebook.md", notebook
    yield "examples/index.md", "\n".join(rows) + "\n"


def read_notebook(path: Path) -> str:
    """Return the cells of a notebook and what they print as Markdown."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        parts += [f"```text\n{''.join(output['text']).rstrip()}\n```" for output in cell.get("outputs", [])]
    return "\n\n".join(parts) + "\n"


# Reference ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Name:
    """A public name."""

    door: str
    """The module that exports it, without the package; empty for the package."""
    name: str
    object: griffe.Object

    @property
    def path(self) -> str:
        """The dotted path by which users import it."""
        return f"{_module(self.door)}.{self.name}"

    @property
    def page(self) -> str:
        """The page that describes it."""
        return _page(self.door)

    @property
    def summary(self) -> str:
        """The first sentence of its docstring, for a cell of a table."""
        docstring = self.object.docstring
        first = "" if docstring is None else " ".join(docstring.value.split("\n\n")[0].split())
        return re.split(r"(?<=\.) (?=[A-Z])", first)[0].replace("|", "\\|")


def _module(door: str) -> str:
    return f"{PACKAGE}.{door}" if door else PACKAGE


def _page(door: str) -> str:
    return f"reference/{door or 'index'}.md"


def load_package() -> griffe.Module:
    """Read the package, without importing it."""
    package = griffe.load(PACKAGE, search_paths=[ROOT], docstring_parser="google", resolve_aliases=True)
    assert isinstance(package, griffe.Module)
    return package


def read_names(package: griffe.Module) -> Iterator[Name]:
    """Yield every public name of every public module."""
    for door in DOORS:
        for name in sorted(importlib.import_module(_module(door)).__all__, key=str.lower):
            found = package[f"{door}.{name}".removeprefix(".")]
            target = found.final_target if isinstance(found, griffe.Alias) else found
            if isinstance(target, griffe.Object) and not target.is_module:
                yield Name(door, name, target)


def find_homes(names: Iterable[Name]) -> dict[str, Name]:
    """Return the name under which each object is described, by the object's own path."""
    homes: dict[str, Name] = {}
    for each in names:
        homes.setdefault(each.object.canonical_path, each)
    return homes


def make_reference(package: griffe.Module, names: Sequence[Name]) -> Iterator[tuple[str, str]]:
    """Yield the page of each public module, for mkdocstrings."""
    homes = find_homes(names)
    for door in DOORS:
        module = package[door] if door else package
        here = [each for each in names if each.door == door]
        own = [each for each in here if homes[each.object.canonical_path] == each]
        rows = [
            f"# {_module(door)}",
            "",
            module.docstring.value if module.docstring else "",
            "",
            "| name | |",
            "|---|---|",
        ]
        for each in here:
            home = homes[each.object.canonical_path]
            link = posixpath.relpath(home.page, "reference") if home.door != door else ""
            rows.append(f"| [`{each.name}`]({link}#{home.path}) | {each.summary} |")
        yield _page(door), "\n".join([*rows, "", *(f"::: {each.path}\n" for each in own)])


def describe(each: Name) -> str:
    """Return a public name as plain Markdown: its signature, its docstring, and its members."""
    lines = [f"## {each.name}", "", f"```python\n{_signature(each.object)}\n```", "", _docstring(each.object), ""]
    if isinstance(each.object, griffe.Class):
        for member in each.object.members.values():
            if isinstance(member, griffe.Function | griffe.Attribute) and not member.name.startswith("_"):
                text = " ".join(_docstring(member).split("\n\n")[0].split())
                lines.append(f"- `{' '.join(_signature(member).split())}`{': ' if text else ''}{text}")
    return "\n".join(lines) + "\n"


def _signature(found: griffe.Object) -> str:
    if isinstance(found, griffe.Function):
        start = "async def" if "async" in found.labels else "def"
        return f"{start} {found.signature()}" + (f" -> {found.returns}" if found.returns else "")
    if isinstance(found, griffe.Attribute):
        annotation = f": {found.annotation}" if found.annotation else ""
        return f"{found.name}{annotation}" + (f" = {found.value}" if found.value else "")
    bases = ", ".join(map(str, found.bases)) if isinstance(found, griffe.Class) else ""
    return f"class {found.name}" + (f"({bases})" if bases else "")


def _docstring(found: griffe.Object) -> str:
    return found.docstring.value if found.docstring else ""


# Checks ---------------------------------------------------------------------------------------------------------------


def read_navigation(pages: Iterable[str]) -> dict[str, list[str]]:
    """Return the pages of each group.

    Raises:
        Problem: A page has no place or several, or a place has no page.
    """
    known = set(pages)
    groups: dict[str, list[str]] = {}
    for group in tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]:
        ((title, entries),) = group.items()
        groups[title] = [page for entry in entries for page in _expand(entry, known)]
    placed = [page for group in groups.values() for page in group]
    odd = {page for page in placed if placed.count(page) > 1} | known.symmetric_difference(placed)
    if odd:
        raise Problem(f"zensical.toml must name these pages once, and they must exist: {sorted(odd)}")
    return groups


def _expand(entry: str, pages: Iterable[str]) -> list[str]:
    if not entry.endswith("/*.md"):
        return [entry]
    folder = entry.removesuffix("*.md")
    return sorted(
        (page for page in pages if page.startswith(folder)), key=lambda page: (not page.endswith("index.md"), page)
    )


def find_undocumented(names: Iterable[Name]) -> list[str]:
    """Return the public names without a docstring."""
    return sorted({each.object.canonical_path for each in names if not each.object.docstring})


class _Anchors(HTMLParser):
    """The anchors and links of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors = {""}
        self.links: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given: dict[str, Any] = dict(attrs)
        self.anchors.update(value for name in ("id", "name") if (value := given.get(name)))
        self.links.update(value for name in ("href", "src") if (value := given.get(name)))


def find_broken_links(site: Path) -> list[str]:
    """Return the links of built pages that lead to no file or no anchor of the site, or to another site's files."""
    pages = {path: _read_anchors(path) for path in site.rglob("*.html") if path.name != "404.html"}
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = path if not parts.path else Path(os.path.normpath(path.parent / unquote(parts.path)))
            target = target / "index.html" if target.is_dir() else target
            anchors = pages[target].anchors if target in pages else {""}
            if not target.exists() or unquote(parts.fragment) not in anchors | {"__comments"}:
                broken.append(f"{path.relative_to(site)}: {link}")
    return sorted(broken)


def _read_anchors(path: Path) -> _Anchors:
    parser = _Anchors()
    parser.feed(path.read_text(encoding="utf-8"))
    return parser


# For programs ---------------------------------------------------------------------------------------------------------


def write_for_programs(site: Path, groups: Mapping[str, list[str]], texts: Mapping[str, str]) -> None:
    """Write each page as Markdown next to its HTML, and `llms.txt` and `llms-full.txt`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed, whole = [f"# {PACKAGE}", "", f"> {project['description']}", ""], []
    for title, pages in groups.items():
        listed += [f"## {title}", ""]
        for page in pages:
            target = site / page
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(texts[page], encoding="utf-8")
            heading, about = _heading(texts[page])
            listed.append(f"- [{heading}]({page}){': ' if about else ''}{about}")
            whole.append(f"<!-- {page} -->\n\n{texts[page].strip()}\n")
        listed.append("")
    (site / "llms.txt").write_text("\n".join(listed), encoding="utf-8")
    (site / "llms-full.txt").write_text("\n\n".join(whole), encoding="utf-8")


def _heading(text: str) -> tuple[str, str]:
    """Return the title of a page and its first sentence."""
    title, *paragraphs = re.split(r"\n\n+", FENCED.sub("", text).strip())
    prose = next((part for part in paragraphs if part[0] not in "#|:!-"), "")
    first = re.split(r"(?<=\.)\s(?=[A-Z`])", " ".join(prose.split()))[0]
    return title.removeprefix("# ").strip(), re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", first).replace("**", "")


# The build ------------------------------------------------------------------------------------------------------------


def write_pages(texts: Mapping[str, str], groups: Mapping[str, list[str]], url: str | None) -> None:
    """Write the pages and the configuration for Zensical. With an address the site has versions."""
    shutil.rmtree(PAGES, ignore_errors=True)
    for page, text in texts.items():
        path = PAGES / page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    shutil.copytree(ROOT / "docs/images", PAGES / "images")
    shutil.copy(ROOT / "docs/site.css", PAGES / "site.css")
    guides = [path.read_text(encoding="utf-8") for path in ROOT.glob("docs/*.md")]
    for name in {name for text in guides for name in TIMELINE.findall(text)}:
        shown = PAGES / "timelines" / f"{name}.html"
        shown.parent.mkdir(parents=True, exist_ok=True)
        timeline = Timeline.from_recording(ROOT / "tests/recordings" / f"{name}.jsonl")
        shown.write_text(timeline.to_html(), encoding="utf-8")
    config = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    for title in ("Examples", "Reference"):
        entries = ", ".join(f"{{ {json.dumps(_short_title(page))} = {json.dumps(page)} }}" for page in groups[title])
        config = config.replace(f'["{title.lower()}/*.md"]', f"[{entries}]")
    if url:
        config = config.replace("[project]\n", f"[project]\nsite_url = {json.dumps(url)}\n", 1)
        config += '\n[project.extra.version]\nprovider = "mike"\n'
    (BUILD / "zensical.toml").write_text(config, encoding="utf-8")


def _short_title(page: str) -> str:
    """Return the title of an example or a module in the navigation."""
    folder, _, name = page.removesuffix(".md").partition("/")
    title = name if folder == "reference" else name.replace("_", " ").capitalize()
    return {"examples/index.md": "All examples", "reference/index.md": PACKAGE}.get(page, title)


def list_version(version: str, root: Path) -> None:
    """Add a built version to those that the pages offer. `latest` is a copy of the newest; visitors see it first."""
    listed = root / "versions.json"
    entries = json.loads(listed.read_text(encoding="utf-8")) if listed.exists() else []
    entries = [each for each in entries if each["version"] != short_version(version)]
    entries.append({"version": short_version(version), "title": version, "aliases": []})
    entries.sort(key=lambda each: [int(part) for part in each["version"].split(".")], reverse=True)
    for each in entries:
        each["aliases"] = ["latest"] if each is entries[0] else []
    listed.write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")
    shutil.rmtree(root / "latest", ignore_errors=True)
    shutil.copytree(root / entries[0]["version"], root / "latest")
    (root / "index.html").write_text('<meta http-equiv="refresh" content="0; url=latest/">\n', encoding="utf-8")
    shutil.copy(root / "latest" / "404.html", root / "404.html")
    (root / ".nojekyll").touch()  # GitHub serves the files as they are


def short_version(version: str) -> str:
    """Return the version without the number of the patch, which replaces the pages of earlier ones."""
    return ".".join(version.split(".")[:2])


def build(*, check_only: bool = False, version: str | None = None, url: str = "") -> None:
    """Build the site.

    Raises:
        Problem: A page has no place, a name no docstring, or a link no target.
    """
    sources = find_sources()
    package = load_package()
    names = list(read_names(package))
    if undocumented := find_undocumented(names):
        raise Problem(f"public names without a docstring: {undocumented}")
    plain = dict(read_guides(sources)) | dict(make_examples())
    reference = dict(make_reference(package, names))
    groups = read_navigation([*plain, *reference])
    if check_only:
        return
    site = SITE / short_version(version) if version else SITE
    write_pages(plain | reference, groups, f"{url.rstrip('/')}/latest/" if version else None)
    shutil.rmtree(site, ignore_errors=True)
    done = subprocess.run([sys.executable, "-m", "zensical", "build", "--clean", "--strict"], cwd=BUILD)
    if done.returncode != 0:
        raise Problem("zensical reports the problems above")
    shutil.move(BUILD / "site", site)
    if broken := find_broken_links(site):
        raise Problem("\n".join(["broken links:", *broken]))
    homes = find_homes(names)
    for door in DOORS:
        title, _, _ = reference[_page(door)].partition("\n\n:::")
        own = [each for each in names if each.door == door and homes[each.object.canonical_path] == each]
        plain[_page(door)] = title + "\n\n" + "\n".join(map(describe, own))
    write_for_programs(site, groups, plain)
    if version:
        list_version(version, SITE)
    print(f"{site}: {len(plain)} pages, {len(homes)} names")


def main(*arguments: str) -> int:
    """Build the site, or check what it is made of."""
    sys.path.insert(0, str(ROOT))
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--version", type=lambda text: text.removeprefix("v"))
    parser.add_argument("--url", default="http://127.0.0.1:8000/")
    given = parser.parse_args(arguments)
    try:
        build(check_only=given.check, version=given.version, url=given.url)
    except Problem as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
