"""What a dimension declares."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from psycopg import sql

from scope_catalogue.stream import TypedColumn


def digest_of(text: str) -> bytes:
    """The digest of a text, which may have any length: BLAKE2b of its UTF-8, 16 bytes."""
    return blake2b(text.encode(), digest_size=16).digest()


@dataclass(frozen=True)
class Parts:
    """The values of a dimension are made of entries of another one, in order, such as a stack of frames.

    Attributes:
        of: the dimension of the parts, which has none itself.
        split: a value's parts.
    """

    of: "Dimension"
    split: Callable[[str], list[str]]


@dataclass(frozen=True, eq=False)
class Dimension:
    """A table in the schema `store`, with a row per entry: its key, what identifies it, and its content.

    Attributes:
        table: the table's name. Its column `id` is the key, a bigint; keys of dimensions with the same `held` are drawn
            from one sequence.
        kind: the kind of streams' columns with such keys, as stored in `store.streams`; or the name of the column that
            all rows have. Empty: rows do not refer to it.
        identity: the columns that identify an entry, by name, with SQL types. There is a unique index on them.
        digest: a value as a value of `identity`, or if that has several columns, as a tuple.
        content: the column with the value; empty: `identity` is the whole value.
        held: the column of a block that lists the keys that its rows have.
        takes: whether it has the values of a column of texts; the dimension of names has those of all others.
        parts: what a value is made of; `content` then has the parts' keys.
        text_of: an SQL function that gives the text for a key; empty: `content` is the text.
    """

    table: str
    kind: str = ""
    identity: Mapping[str, str] = field(default_factory=lambda: {"digest": "bytea"})
    digest: Callable[[Any], Hashable] = digest_of
    content: str = "text"
    held: str = "names"
    takes: Callable[[TypedColumn], bool] = lambda _: False
    parts: Parts | None = None
    text_of: str = ""

    @property
    def text(self) -> str:
        """SQL of the text of the table's row `t`."""
        return f"{self.text_of}(t.id)" if self.text_of else f"t.{self.content}"

    def texts(self, keys: str) -> str:
        """A query of `id` and `text` of these keys: SQL of an array."""
        return f"SELECT t.id, {self.text} AS text FROM store.{self.table} AS t WHERE t.id = ANY({keys})"

    def joined(self, key: sql.Composable, column: str) -> tuple[sql.Composable, list[sql.Composable]]:
        """SQL of the text for a key, and the joins that it needs; `column` is the name of the key's column."""
        if self.text_of:
            return sql.SQL("{}({})").format(sql.SQL(self.text_of), key), []
        alias = sql.Identifier(f"{column} text")  # no column has a blank in its name
        join = sql.SQL("LEFT JOIN {table} AS {a} ON {a}.id = {key}")
        text = sql.SQL("{}.{}").format(alias, sql.Identifier(self.content))
        return text, [join.format(table=sql.Identifier("store", self.table), a=alias, key=key)]

    def text_at(self, key: sql.Composable) -> sql.Composed:
        """SQL of the text for a key, without a join."""
        return sql.SQL("(SELECT {} FROM {} AS t WHERE t.id = {})").format(
            sql.SQL(self.text), sql.Identifier("store", self.table), key
        )
