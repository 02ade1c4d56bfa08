"""The queries of `queries.sql` by name."""

import re
from functools import cache
from importlib.resources import files


@cache
def queries() -> dict[str, bytes]:
    """The text of each query by name, for psycopg."""
    text = (files("scope_server.store.reading") / "queries.sql").read_text()
    parts = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)[1:]
    return {name: _statement(body) for name, body in zip(parts[::2], parts[1::2], strict=True)}


def _statement(body: str) -> bytes:
    return body[: body.index(";\n")].strip().encode()  # the rest is the comment of the next query
