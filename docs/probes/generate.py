"""Writes a page for each probe, and README.md with a table of all, from the catalogue: `make docs`.

usage: generate.py [FOLDER]

Pages are written to FOLDER, by default to this one. Probes are found as everywhere else, so a new one has its page by
`make docs` alone. A page of a probe that is gone is deleted.
"""

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from scope_bpf.catalogue.probe import Probe
from scope_bpf.catalogue.stream import HEADER, OF_INTERVAL, PROCESS, SAMPLED, Stream
from scope_bpf.probes import probes
from scope_catalogue.catalogue import probe_named
from scope_catalogue.stream import Column
from scope_cli.commands.probes import described, type_name

HERE = Path(__file__).parent
GENERATED = "<!-- Written by `make docs` from {}: edit that instead. -->"
IMPLIED = {
    "events": HEADER,
    "summaries by process": PROCESS,
    "summaries of the machine": OF_INTERVAL,
    "samples": SAMPLED,
}


def main() -> None:
    """Writes the pages."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    pages = {f"{name}.md": page(probe) for name, probe in probes().items()} | {"README.md": index()}
    for left in {path.name for path in folder.glob("*.md")} - pages.keys():
        (folder / left).unlink()
    for name, text in pages.items():
        (folder / name).write_text(text)


def page(probe: Probe) -> str:
    """The page of a probe."""
    told = described(probe_named(probe.name))
    return _joined(
        f"# {probe.name}",
        GENERATED.format(f"`src/scope_bpf/probes/{probe.name}`"),
        f"{_sentence(probe.meaning)} [All probes](README.md).",
        _examples(told["examples"]),
        _bullets("## What the rows mean", told["notes"]),
        _bullets("## Limits and costs", told["limits"]),
        _attaching(probe),
        _options(told["options"]),
        *(
            _stream(stream, columns["columns"])
            for stream, columns in zip(probe.public_streams, told["streams"], strict=True)
        ),
    )


def index() -> str:
    """The table of all probes, and the columns that streams of one kind have in common."""
    rows = (
        (f"[{name}]({name}.md)", probe.meaning, ", ".join(f"`{stream.name}`" for stream in probe.public_streams))
        for name, probe in probes().items()
    )
    common = (f"### {_capital(title)}\n\n{_meanings(columns)}" for title, columns in IMPLIED.items())
    return _joined(
        "# Probes",
        GENERATED.format("`src/scope_bpf/probes/`"),
        "What SCOPE can record. `scope probes` prints this table, `scope probes NAME` what a page has, and "
        "`scope doctor` which probes this host allows.",
        _table(("probe", "records", "streams"), rows),
        "## Columns of all streams\n\nBesides its own columns, a stream has those of its kind.",
        *common,
        "A stored row also has `time`: when it happened, by the clock of its machine.",
    )


def _examples(examples: Iterable[Mapping[str, str]]) -> str:
    told = "\n\n".join(f"{_capital(one['shows'])}:\n\n```sh\n{one['command']}\n```" for one in examples)
    return told and f"## Examples\n\n{told}"


def _bullets(title: str, texts: Iterable[str]) -> str:
    """A list in which names of other pages are links."""
    told = "\n".join("- " + re.sub(r"\bdocs/([\w-]+\.md)", r"[\1](../\1)", text) for text in texts)
    return told and f"{title}\n\n{told}"


def _attaching(probe: Probe) -> str:
    if probe.sampler:
        return "## How it attaches\n\nIt attaches to nothing: the agent asks a library at intervals."
    ways = "\n".join(f"{number}. {way.name}" for number, way in enumerate(probe.alternatives, 1))
    first = "The first way that this kernel allows is taken; `scope doctor` says which.\n\n"
    return f"## How it attaches\n\n{first if len(probe.alternatives) > 1 else ''}{ways}"


def _options(options: Iterable[Mapping[str, Any]]) -> str:
    rows = ((f"`{one['name']}`", _values(one), _default(one), one["meaning"]) for one in options)
    return f"## Options\n\nGiven as `-o NAME=VALUE`.\n\n{_table(('option', 'values', 'default', 'meaning'), rows)}"


def _values(option: Mapping[str, Any]) -> str:
    if option["choices"]:
        return ", ".join(f"`{choice}`" for choice in option["choices"])
    if option["minimum"] is None:
        return str(option["type"])
    if option["maximum"] is None:
        return f"{option['type']}, from {option['minimum']}"
    return f"{option['type']}, {option['minimum']} to {option['maximum']}"


def _default(option: Mapping[str, Any]) -> str:
    if option["example"]:
        return f"must be given, such as `{option['example']}`"
    default = option["default"]
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    text = ",".join(default) if isinstance(default, tuple) else str(default)
    return f"`{text}`" if text else "all"


def _stream(stream: Stream, columns: Iterable[Mapping[str, str]]) -> str:
    rows = (
        (f"`{column['name']}`", type_name(column["type"]), column["unit"], column["meaning"])
        for column in columns
        if column["name"] not in stream.implied
    )
    (of,) = (title for title, implied in IMPLIED.items() if implied is stream.implied)
    besides = f"It also has [the columns of all {of}](README.md#{of.replace(' ', '-')})."
    table = _table(("column", "type", "unit", "meaning"), rows)
    return f"## Stream `{stream.name}`\n\n{_sentence(stream.meaning)} {besides}\n\n{table}"


def _meanings(columns: Mapping[str, Column]) -> str:
    rows = ((f"`{name}`", column.unit, column.meaning) for name, column in columns.items())
    return _table(("column", "unit", "meaning"), rows)


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _sentence(text: str) -> str:
    return f"{_capital(text)}."


def _joined(*parts: str) -> str:
    return "\n\n".join(filter(None, parts)) + "\n"


if __name__ == "__main__":
    main()
