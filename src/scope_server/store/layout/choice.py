"""The layouts by name, and which one a database has: it keeps the one that it was made with."""

from typing import Any

import psycopg

from scope_server.errors import SchemaConflict
from scope_server.store.layout.blocks.blocks import BLOCKS
from scope_server.store.layout.contract import Layout
from scope_server.store.layout.hypertables.hypertables import HYPERTABLES

LAYOUTS: dict[str, Layout] = {one.name: one for one in (BLOCKS, HYPERTABLES)}


def settle(connection: psycopg.Connection[Any], layout: Layout) -> None:
    """Makes sure that a database has this layout, in the open transaction.

    Raises:
        SchemaConflict: it has another one, or cannot have this one.
    """
    found = connection.execute("SELECT name FROM store.layout").fetchone()
    if found is None:
        layout.prepare(connection)
        connection.execute("INSERT INTO store.layout (name) VALUES (%s)", [layout.name])
    elif found[0] != layout.name:
        raise SchemaConflict(
            f"the rows of this database lie in {found[0]}, and stay there: start with --layout {found[0]}, or use "
            f"another database for {layout.name}"
        )
