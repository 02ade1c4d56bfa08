"""Finds and makes the entries of a dimension, and caches their keys."""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any

import pyarrow as pa

from scope_server.store.dimensions.dimension import Dimension
from scope_server.store.writing.connection import WriterConnection, blobs, integers, strings

_REMEMBERED = 200_000  # cached keys per dimension

_FIND = "SELECT t.id, {identity_of_t} FROM store.{table} t{given} WHERE {met}"
_RESCUE = """
DELETE FROM store.doomed d USING (
    SELECT d.id FROM store.doomed d JOIN store.{table} t ON t.id = d.id{given}
    WHERE d.kind = '{table}' AND {met} ORDER BY d.id FOR UPDATE OF d
) found
WHERE d.kind = '{table}' AND d.id = found.id RETURNING d.id"""
_MAKE = """
INSERT INTO store.{table} ({identity}{content}) SELECT {identity}{contents}
FROM unnest({arrays}{array_of_contents}) WITH ORDINALITY w ({identity}{content}, place) ORDER BY place
ON CONFLICT DO NOTHING RETURNING id, {identity}"""
_ARRAYS: Mapping[str, Callable[[Iterable[Any]], pa.Array]] = {"bytea": blobs, "bigint": integers}


class Entries:
    """Cached keys of a dimension, for one connection. For one thread.

    New entries are inserted in the open transaction, sorted, so that two writers of the same entries wait for each
    other but never deadlock. A key is only drawn for an entry that was not found.
    """

    def __init__(self, connection: WriterConnection, dimension: Dimension) -> None:
        self._connection = connection
        self._dimension = dimension
        self._find, self._rescue, self._make = _statements(dimension)
        self._identity: Callable[[Mapping[str, Any]], Hashable] = itemgetter(*dimension.identity)
        self._known: dict[Hashable, int] = {}

    def missing(self, values: Iterable[Hashable], swept: bool) -> dict[Hashable, Any]:
        """The values that are neither cached nor in the table, by identity, in its order.

        Args:
            swept: a sweep is running; entries found here are first removed from its list.
        """
        digest = self._dimension.digest
        asked: dict[Any, Any] = {one: value for value in values if (one := digest(value)) not in self._known}
        if asked:
            if swept:
                self._connection.query(self._rescue, self._arrays(asked))
            self._remember(self._find, self._arrays(asked))
        return {one: asked[one] for one in sorted(asked) if one not in self._known}

    def make(self, missing: Collection[Hashable], contents: Sequence[str]) -> None:
        """Inserts missing entries.

        Args:
            missing: identities, in their order.
            contents: of each; empty if the dimension has none.
        """
        of_contents = {self._dimension.content: strings(contents)} if self._dimension.content else {}
        self._remember(self._make, {**self._arrays(missing), **of_contents})
        raced = [one for one in missing if one not in self._known]
        if raced:  # another writer has created them since the lookup
            self._remember(self._find, self._arrays(raced))

    def keys(self, values: Iterable[Hashable]) -> dict[Hashable, int]:
        """The keys of these values, which were all found or made before."""
        digest = self._dimension.digest
        return {value: self._known[digest(value)] for value in values}

    def trim(self) -> None:
        """If too many keys are cached, forgets the oldest quarter at once."""
        if len(self._known) > _REMEMBERED:
            for one in list(islice(self._known, len(self._known) - _REMEMBERED * 3 // 4)):
                del self._known[one]

    def forget(self) -> None:
        """Forgets all cached keys: the transaction was rolled back, so its entries do not exist."""
        self._known.clear()

    def _arrays(self, identities: Collection[Any]) -> dict[str, pa.Array]:
        several = len(self._dimension.identity) > 1
        columns = zip(*identities, strict=True) if several else (identities,)
        of_types = zip(self._dimension.identity.items(), columns, strict=True)
        return {name: _ARRAYS[type_](values) for (name, type_), values in of_types}

    def _remember(self, statement: str, parameters: dict[str, pa.Array]) -> None:
        self._known |= {self._identity(row): row["id"] for row in self._connection.query(statement, parameters)}


def _statements(dimension: Dimension) -> tuple[str, str, str]:
    """The statements that find entries, that take them off the list of a sweep, and that make them."""
    identity, of_t, of_w = (", ".join(f"{of}{name}" for name in dimension.identity) for of in ("", "t.", "w."))
    arrays = ", ".join(f"${number}::{type_}[]" for number, type_ in enumerate(dimension.identity.values(), 1))
    several, content = len(dimension.identity) > 1, dimension.content
    parts = {
        "table": dimension.table,
        "identity": identity,
        "identity_of_t": of_t,
        "arrays": arrays,
        # To find 5,000 digests of 500,000 by a join, PostgreSQL reads the whole table: it takes eight times as long.
        "given": f" JOIN unnest({arrays}) w ({identity}) ON ({of_t}) = ({of_w})" if several else "",
        "met": "true" if several else f"{of_t} = ANY({arrays})",
        "content": f", {content}" if content else "",
        "contents": f", {content}::{'bigint[]' if dimension.parts else 'text'}" if content else "",
        "array_of_contents": f", ${len(dimension.identity) + 1}::text[]" if content else "",
    }
    find, rescue, make = (each.format(**parts) for each in (_FIND, _RESCUE, _MAKE))
    return find, rescue, make
