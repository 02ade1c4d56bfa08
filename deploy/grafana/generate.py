"""Writes deploy/grafana/dashboards/*.json from `boards/`: `make dashboards`.

usage: python -m deploy.grafana.generate [FOLDER]
"""

import importlib
import json
import sys
from pathlib import Path

from deploy.grafana.panels import Dashboard

HERE = Path(__file__).parent
FOLDER = HERE / "dashboards"


def dashboards() -> dict[str, Dashboard]:
    """The dashboards, by the names of their files."""
    names = sorted(file.stem for file in (HERE / "boards").glob("[a-z]*.py"))
    return {name: importlib.import_module(f"deploy.grafana.boards.{name}").DASHBOARD for name in names}


def main() -> None:
    """Writes the files, and removes those of dashboards that are gone."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    found = dashboards()
    for file in folder.glob("*.json"):
        if file.stem not in found:
            file.unlink()
    for name, dashboard in found.items():
        (folder / f"{name}.json").write_text(json.dumps(dashboard.json(), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
