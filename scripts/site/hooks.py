"""What the site shows besides docs/: the examples and notebooks, the API's pages, the changelog.

They are made while the site is built, so that nothing stands in the repository twice, and pages of docs/ keep links
that are right on GitHub: a link out of docs/ becomes one to the page made of that file."""

from __future__ import annotations

import ast
import posixpath
import re
from pathlib import Path
from typing import Any

import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from nbconvert import MarkdownExporter

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

# Each page of the reference: what it is about, and the classes and functions that it describes.
REFERENCE: dict[str, tuple[str, list[str]]] = {
    "session": ("Attaching, asking", ["whence.attach", "whence.session.Session"]),
    "trace": (
        "Traces",
        [
            "whence.debug.trace.Trace",
            "whence.model.verdict.Verdict",
            "whence.sql.why_not.Dropped",
            "whence.debug.everything.Everything",
        ],
    ),
    "guard": (
        "Culprits and smallest inputs",
        [
            "whence.debug.guard.guard.Guard",
            "whence.debug.guard.culprit.Culprit",
            "whence.debug.minimize.minimize.Minimal",
        ],
    ),
    "diagnose": (
        "Settings",
        [
            "whence.debug.diagnose.api.diagnose",
            "whence.debug.diagnose.diagnosis.Diagnosis",
            "whence.debug.diagnose.causes.Cause",
        ],
    ),
    "rdd": ("RDDs", ["whence.rdd.context.LineageContext", "whence.rdd.trace.Traced"]),
    "actors": (
        "Any code",
        ["whence.actors.worker.Actor", "whence.actors.store.ActorStore", "whence.actors.records.Location"],
    ),
    "arrays": (
        "Arrays",
        ["whence.arrays.operator.Operator", "whence.arrays.workflow.Workflow", "whence.arrays.run.Run"],
    ),
    "catalog": ("The catalogue", ["whence.store.catalog.Catalog"]),
    "errors": ("Errors", ["whence.model.errors"]),
}
# What users make themselves; all else they get from a method, and how it is made is of no interest.
MADE = {
    "whence.debug.diagnose.diagnosis.Diagnosis",
    "whence.actors.store.ActorStore",
    "whence.actors.records.Location",
    "whence.arrays.workflow.Workflow",
}
NOT_MADE = "    options:\n      merge_init_into_class: false\n"
# Folders in examples/: their titles, and the pages that tell of them.
PROJECTS = {
    "dbt": ("A dbt project with a test that fails", "recipes.md"),
    "yesterday": ("Yesterday's job", "yesterday.md"),
}
KINDS = {".py": "python", ".sql": "sql", ".yml": "yaml", ".csv": "text"}
OUTSIDE = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "README.md": "index.md"}
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
TELLS_PAGE = re.compile(r"\((?:docs/)?([a-z]+)\.md\)")


def programs() -> list[Path]:
    return sorted((ROOT / "examples").glob("*.py"))


def projects() -> list[Path]:
    """Folders of several files, each shown on one page."""
    return sorted(path for path in (ROOT / "examples").iterdir() if path.name in PROJECTS)


def files_of(project: Path) -> list[Path]:
    left = {"target", "logs"}  # which dbt leaves behind
    return sorted(p for p in project.rglob("*") if p.suffix in KINDS and not left & set(p.parts))


def notebooks() -> list[Path]:
    return sorted((ROOT / "examples").glob("*.ipynb"))


def page_of(file: Path) -> str | None:
    """The site's page that shows a file of the repository."""
    inside = file.relative_to(ROOT).as_posix()
    if inside in OUTSIDE:
        return OUTSIDE[inside]
    if file.is_relative_to(DOCS) and file.exists():
        return file.relative_to(DOCS).as_posix()
    for project in projects():
        if file.is_relative_to(project):
            return f"examples/{project.name}.md"
    return f"examples/{file.stem}.md" if file in [*programs(), *notebooks()] else None


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.nav = _there(config.nav or [])
    return config


def _there(nav: list[Any]) -> list[Any]:
    """The navigation without pages that are not written yet, and with those that are made here."""
    made = {f"reference/{name}.md" for name in REFERENCE} | {
        "reference/index.md",
        "examples/index.md",
        *OUTSIDE.values(),
    }
    made |= {f"examples/{path.stem}.md" for path in notebooks()}
    kept: list[Any] = []
    for entry in nav:
        title, target = next(iter(entry.items())) if isinstance(entry, dict) else (None, entry)
        if title == "Python":
            kept.append({title: [{about: f"reference/{name}.md"} for name, (about, _) in REFERENCE.items()]})
        elif title == "Programs":
            several = [{PROJECTS[p.name][0]: f"examples/{p.name}.md"} for p in projects()]
            kept.append({title: [*several, *({p.name: f"examples/{p.stem}.md"} for p in programs())]})
        elif isinstance(target, list):
            kept.append({title: _there(target)})
        elif target in made or (DOCS / target).exists():
            kept.append(entry)
        else:
            print(f"INFO    -  {target} is not written yet: left out of the navigation")
    return kept


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path, text in made_pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def made_pages() -> dict[str, str]:
    pages = {
        "changelog.md": (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
        "contributing.md": (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"),
        "examples/index.md": _examples_index(),
        "reference/index.md": _reference_index(),
    }
    for path in programs():
        pages[f"examples/{path.stem}.md"] = _program(path)
    for path in projects():
        pages[f"examples/{path.name}.md"] = _project(path)
    for path in notebooks():
        pages[f"examples/{path.stem}.md"] = notebook(path)
    for name, (about, members) in REFERENCE.items():
        told = (f"::: {member}\n{'' if member in MADE else NOT_MADE}" for member in members)
        pages[f"reference/{name}.md"] = f"# {about}\n\n" + "\n".join(told)
    return pages


def _title(path: Path) -> str:
    if path.suffix == ".ipynb":
        first = nbformat.read(path, as_version=4).cells[0].source.splitlines()[0]
        return str(first).lstrip("# ")
    told = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or path.stem
    return told.splitlines()[0].rstrip(".")


def _program(path: Path) -> str:
    return f"# {path.name}\n\n{_title(path)}.\n\n```python\n{path.read_text(encoding='utf-8')}```\n"


def _project(folder: Path) -> str:
    title, about = PROJECTS[folder.name]
    parts = [f"# {title}\n\nWhat it is for: [{about}](../{about}).\n"]
    for file in files_of(folder):
        text = file.read_text(encoding="utf-8").rstrip("\n")
        parts.append(f"\n## {file.relative_to(folder).as_posix()}\n\n```{KINDS[file.suffix]}\n{text}\n```\n")
    return "".join(parts)


def _examples_index() -> str:
    lines = ["# Examples", "", "All of them are run by tests.", "", "## Notebooks", ""]
    lines += [f"- [{_title(path)}]({path.stem}.md)" for path in notebooks()]
    lines += ["", "## Programs", ""]
    lines += [f"- [{PROJECTS[p.name][0]}]({p.name}.md)" for p in projects()]
    lines += [f"- [{p.name}]({p.stem}.md): {_title(p)}" for p in programs()]
    return "\n".join(lines) + "\n"


def _reference_index() -> str:
    lines = ["# Reference", "", "What is public, from its docstrings.", ""]
    lines += [f"- [{about}]({name}.md)" for name, (about, _) in REFERENCE.items()]
    also = "[every method on one page](../api.md), [the command line](../cli.md), [how it is built](../architecture.md)"
    return "\n".join([*lines, "", f"Also: {also}."]) + "\n"


def notebook(path: Path) -> str:
    """Its cells with their outputs: code and text as blocks, HTML as it is."""
    held = nbformat.read(path, as_version=4)
    text: str = MarkdownExporter().from_notebook_node(held)[0]
    note = f"\n\n!!! note\n    This is the notebook `examples/{path.name}`, with what it printed.\n"
    title, _, rest = text.lstrip().partition("\n")
    return f"{title}{note}\n{rest}"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links between files of the repository become links between pages of the site."""
    path = page.file.src_uri
    outside = {made: ROOT / source for source, made in OUTSIDE.items() if made != "index.md"}
    file = outside.get(path, DOCS / path)
    made = path in outside or not file.exists()
    if made and path not in outside:
        return markdown

    def exchanged(match: re.Match[str]) -> str:
        image, text, target = match.groups()
        address, hash_, anchor = target.partition("#")
        if not address or "://" in address:
            return match[0]
        there = Path(posixpath.normpath(file.parent / address))
        shown = page_of(there) if there.is_relative_to(ROOT) else None
        if shown is None:
            return text if there.exists() else match[0]
        link = posixpath.relpath(shown, posixpath.dirname(path) or ".")
        return f"{image}[{text}]({link}{hash_}{anchor})"

    return LINK.sub(exchanged, markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Docstrings name pages as (docs/debug.md) or (capture.md)."""
    path = page.file.src_uri
    if not path.startswith("reference/") and path != "api.md":
        return html
    up = "../" if "/" in path else ""
    there = {file.src_uri for file in files.documentation_pages()}

    def linked(match: re.Match[str]) -> str:
        name = match[1]
        return f'(<a href="{up}{name}.html">{name}</a>)' if f"{name}.md" in there else match[0]

    return TELLS_PAGE.sub(linked, html)
