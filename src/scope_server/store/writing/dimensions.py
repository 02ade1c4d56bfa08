"""Keys of the entries of dimensions that rows refer to."""

from collections.abc import Collection, Hashable, Mapping
from typing import Any

from scope_server.store.dimensions.declared import PROCESSES, Process, of_parts, of_rows
from scope_server.store.dimensions.dimension import Dimension
from scope_server.store.writing.connection import WriterConnection
from scope_server.store.writing.described import Description, describe
from scope_server.store.writing.entries import Entries

Wanted = Mapping[Dimension, Collection[Hashable]]  # values
Keys = Mapping[Dimension, Mapping[Any, int]]  # by value
_ENTER = "SELECT store.enter() AS sweep"


class Dimensions:
    """Cached keys of one connection. For one thread; used only as long as the connection."""

    def __init__(self, connection: WriterConnection) -> None:
        self._connection = connection
        self._entries = {one: Entries(connection, one) for one in (*of_rows(), *of_parts())}
        self._sweep = 0  # number of the sweep for which cached keys are valid; odd while a sweep runs

    def ensure(self, wanted: Wanted, descriptions: Mapping[Process, Description]) -> Keys:
        """The keys of all these values; missing ones are created and committed.

        The keys are valid only in the transaction that is open on return: between transactions, a sweep may start and
            delete entries without references. New entries are committed in their own transaction before. So if the rows
            are refused, no keys are wasted by retries; and other writers with the same new entries do not wait for the
            rows. An entry that no row uses does no harm.

        Args:
            wanted: values of dimensions that rows refer to.
            descriptions: of processes, wanted or not.
        """
        self._enter()
        while self._make(wanted, descriptions):
            self._connection.commit()
            descriptions = {}
            self._enter()
        keys = {one: self._entries[one].keys(wanted.get(one, ())) for one in of_rows()}
        for entries in self._entries.values():
            entries.trim()
        return keys

    def forget(self) -> None:
        """Forgets all cached keys: the transaction was rolled back, or a sweep has started."""
        for entries in self._entries.values():
            entries.forget()

    def _enter(self) -> None:
        # A sweep that starts after this waits for the end of the transaction before it deletes anything.
        (row,) = self._connection.query(_ENTER)
        sweep = row["sweep"]
        if sweep != self._sweep:
            self.forget()
            self._sweep = sweep

    def _make(self, wanted: Wanted, descriptions: Mapping[Process, Description]) -> bool:
        # Returns whether anything was written.
        made = False
        for one in of_rows():
            also = descriptions if one is PROCESSES else ()
            made = self._ensure(one, {*wanted.get(one, ()), *also}) or made
        keys = self._entries[PROCESSES].keys(descriptions)
        return describe(self._connection, {keys[one]: what for one, what in descriptions.items()}) or made

    def _ensure(self, dimension: Dimension, values: Collection[Hashable]) -> bool:
        entries, parts = self._entries[dimension], dimension.parts
        missing = entries.missing(values, swept=self._sweep % 2 == 1)
        if not missing:
            return False
        contents = list(missing.values()) if dimension.content else []
        if parts:
            split = [parts.split(value) for value in contents]
            of_all = {part for its in split for part in its}
            self._ensure(parts.of, of_all)
            keys = self._entries[parts.of].keys(of_all)
            contents = [f"{{{','.join(str(keys[part]) for part in its)}}}" for its in split]
        entries.make(missing, contents)
        return True
