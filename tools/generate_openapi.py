"""Writes the API's OpenAPI document, from which the console's client is generated: `make console`.

usage: generate_openapi.py FILE
"""

import json
import sys
from pathlib import Path

from scope_server.api.openapi import document
from scope_server.api.table import TABLE


def main() -> None:
    """Writes the document."""
    file = Path(sys.argv[1])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document(TABLE), indent=1) + "\n")


if __name__ == "__main__":
    main()
