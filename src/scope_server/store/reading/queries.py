"""The queries of `queries.sql` by name."""

import re
from functools import cache
from importlib.resources import files


@cache
def queries() -> dict[str, bytes]:
    """Each query's text by its name, as psycopg takes it."""
    text = (files("scope_server.store.reading") / "queries.sql").read_text()
    parts = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)[1:]
    return {name: _statement(body) for name, body in zip(parts[::2], parts[1::2], strict=True)}


def _statement(body: str) -> bytes:
    return body[: body.index(";\n")].strip().encode()  # what follows is the comment of the next one
