"""Writes docs/settings.md, all settings of the daemons, from their declarations: `make docs`.

usage: generate_settings_page.py [FILE]
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scope_cli.configuration.daemons import DAEMONS, Daemon
from scope_cli.configuration.keys import Key, keys

FILE = Path(__file__).parents[1] / "docs/settings.md"
HEAD = """# Settings

<!-- Written by `make docs` from `settings.py` of `src/scope_agentd` and `src/scope_server`: edit those instead. -->

All settings of agent and server. [services.md](services.md#configuration) says where they are read. The option of
`keep_days` is `--keep-days`; its environment variable is `SCOPE_SERVER_KEEP_DAYS`. Bytes may be written as `512M` or
`20G`, in the file in quotes. A list is one of TOML in the file; its option may be repeated, and its variable separates
with commas.

`scope config sample server` prints a file with all of this, `scope config check server` says what is wrong with a file,
and `scope config show server` which values hold and where each came from."""


def main() -> None:
    """Writes the page."""
    (Path(sys.argv[1]) if len(sys.argv) > 1 else FILE).write_text(page())


def page() -> str:
    """The page."""
    return "\n\n".join([HEAD, *(part for daemon in DAEMONS.values() for part in _part(daemon))]) + "\n"


def _part(daemon: Daemon[Any]) -> Iterator[str]:
    meaning = daemon.meaning[0].upper() + daemon.meaning[1:]
    yield f"## {meaning}"
    yield f"File: `{daemon.file}`. Variables: `{daemon.prefix}` and the setting's name in capital letters."
    heads = ("| setting | value | meaning | default |", "| --- | --- | --- | --- |")
    yield "\n".join([*heads, *map(_row, keys(daemon).values())])


def _row(key: Key) -> str:
    unit = key.setting.unit if key.kind.metavar != "TEXT" else ""
    value = f"{'several ' if key.kind.many else ''}`{key.metavar}`{unit and f' {unit}'}"
    cells = (f"`{key.name}`", value, key.setting.meaning, key.default or "none: a value is required")
    escaped = [cell.replace("|", r"\|") for cell in cells]
    return f"| {' | '.join(escaped)} |"


if __name__ == "__main__":
    main()
