"""Keys of texts: names, stacks and frames. A text is found by its digest, so it may have any length."""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from itertools import islice

from scope_server.store.writing.connection import WriterConnection, blobs, strings

_REMEMBERED = 200_000  # cached keys per table

_FIND = "SELECT id, digest FROM store.{table} WHERE digest = ANY($1::bytea[])"
_RESCUE = """
DELETE FROM store.doomed d USING (
    SELECT d.id FROM store.doomed d JOIN store.{table} t ON t.id = d.id
    WHERE d.kind = '{table}' AND t.digest = ANY($1::bytea[]) ORDER BY d.id FOR UPDATE OF d
) found
WHERE d.kind = '{table}' AND d.id = found.id RETURNING d.id"""
_MAKE = """
INSERT INTO store.{table} (digest, {column}) SELECT digest, content::{type}
FROM unnest($1::bytea[], $2::text[]) WITH ORDINALITY w (digest, content, place) ORDER BY place
ON CONFLICT DO NOTHING RETURNING id, digest"""


class Texts:
    """Cached keys of a table's texts, for one connection. For one thread.

    New texts are inserted in the open transaction, sorted, so that two writers of the same texts wait for each other
    but never deadlock. A key is only drawn for a text that was not found.

    Args:
        table: a table in `store` with the columns id, digest and `column`.
    """

    def __init__(self, connection: WriterConnection, table: str, column: str = "text", type_: str = "text") -> None:
        self._connection = connection
        self._find = _FIND.format(table=table)
        self._rescue = _RESCUE.format(table=table)
        self._make = _MAKE.format(table=table, column=column, type=type_)
        self._known: dict[bytes, int] = {}

    def missing(self, texts: Iterable[str], swept: bool) -> dict[bytes, str]:
        """The texts that are neither cached nor in the table, by digest, in order of digest.

        Args:
            swept: a sweep is running; texts found here are first removed from its list.
        """
        asked = {digest: text for digest, text in digests(texts).items() if digest not in self._known}
        if asked:
            if swept:
                self._connection.query(self._rescue, {"digests": blobs(asked)})
            found = self._connection.query(self._find, {"digests": blobs(asked)})
            self._remember({row["digest"]: row["id"] for row in found})
        return {digest: asked[digest] for digest in sorted(asked) if digest not in self._known}

    def make(self, contents: Mapping[bytes, str]) -> None:
        """Inserts missing texts: contents by digest, in order of digest."""
        if not contents:
            return
        parameters = {"digests": blobs(contents), "contents": strings(contents.values())}
        made = {row["digest"]: row["id"] for row in self._connection.query(self._make, parameters)}
        self._remember(made)
        raced = [digest for digest in contents if digest not in made]
        if raced:  # another writer has created them since the lookup
            found = self._connection.query(self._find, {"digests": blobs(raced)})
            self._remember({row["digest"]: row["id"] for row in found})

    def keys(self, texts: Iterable[str]) -> dict[str, int]:
        """The keys of these texts, which were all found or made before."""
        return {text: self._known[digest] for digest, text in digests(texts).items()}

    def trim(self) -> None:
        """If too many keys are cached, forgets the oldest quarter at once."""
        if len(self._known) > _REMEMBERED:
            for digest in list(islice(self._known, len(self._known) - _REMEMBERED * 3 // 4)):
                del self._known[digest]

    def forget(self) -> None:
        """Forgets all cached keys: the transaction was rolled back, so its texts do not exist."""
        self._known.clear()

    def _remember(self, found: Mapping[bytes, int]) -> None:
        self._known |= found


def digests(texts: Iterable[str]) -> dict[bytes, str]:
    """The texts by digest."""
    return {digest_of(text): text for text in texts}


def digest_of(text: str) -> bytes:
    """The digest of a text: BLAKE2b of its UTF-8, 16 bytes."""
    return blake2b(text.encode(), digest_size=16).digest()
