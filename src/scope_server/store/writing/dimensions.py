"""Keys of names, stacks (with their frames) and processes that rows refer to."""

from collections.abc import Collection, Iterable, Mapping
from itertools import islice

from scope_server.store.writing.connection import WriterConnection, integers
from scope_server.store.writing.described import Description, describe
from scope_server.store.writing.rows import Keys, Process
from scope_server.store.writing.texts import Texts

_REMEMBERED = 200_000
_COLUMNS = ("machine", "pid", "start_ns")
_ENTER = "SELECT store.enter() AS sweep"
_RESCUE = """
DELETE FROM store.doomed d USING (
    SELECT d.id FROM store.doomed d JOIN store.processes p ON p.id = d.id
    JOIN unnest($1::bigint[], $2::bigint[], $3::bigint[]) w (machine, pid, start_ns)
      ON (p.pid, p.start_ns, p.machine) = (w.pid, w.start_ns, w.machine)
    WHERE d.kind = 'processes' ORDER BY d.id FOR UPDATE OF d
) found
WHERE d.kind = 'processes' AND d.id = found.id RETURNING d.id"""
_FIND = """
SELECT p.id, p.machine::bigint AS machine, p.pid, p.start_ns FROM store.processes p
JOIN unnest($1::bigint[], $2::bigint[], $3::bigint[]) w (machine, pid, start_ns)
  ON (p.pid, p.start_ns, p.machine) = (w.pid, w.start_ns, w.machine)"""
_MAKE = """
INSERT INTO store.processes (machine, pid, start_ns) SELECT machine, pid, start_ns
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) WITH ORDINALITY w (machine, pid, start_ns, place) ORDER BY place
ON CONFLICT DO NOTHING RETURNING id, machine::bigint AS machine, pid, start_ns"""


class Dimensions:
    """Cached keys of one connection. For one thread; used only as long as the connection."""

    def __init__(self, connection: WriterConnection) -> None:
        self._connection = connection
        self._names = Texts(connection, "names")
        self._frames = Texts(connection, "frames")
        self._stacks = Texts(connection, "stacks", "frames", "bigint[]")
        self._processes: dict[Process, int] = {}
        self._sweep = 0  # number of the sweep for which cached keys are valid; odd while a sweep runs

    def ensure(
        self,
        names: Collection[str],
        stacks: Collection[str],
        processes: Collection[Process],
        descriptions: Mapping[Process, Description],
    ) -> Keys:
        """The keys of all these values; missing ones are created and committed.

        The keys are valid only in the transaction that is open on return: between transactions, a sweep may start and
            delete entries without references. New entries are committed in their own transaction before. So if the rows
            are refused, no keys are wasted by retries; and other writers with the same new entries do not wait for the
            rows. An entry that no row uses does no harm.
        """
        self._enter()
        while self._make(names, stacks, processes, descriptions):
            self._connection.commit()
            descriptions = {}
            self._enter()
        keys = Keys(
            self._names.keys(names), self._stacks.keys(stacks), {one: self._processes[one] for one in processes}
        )
        self._trim()
        return keys

    def forget(self) -> None:
        """Forgets all cached keys: the transaction was rolled back, or a sweep has started."""
        for texts in (self._names, self._frames, self._stacks):
            texts.forget()
        self._processes.clear()

    @property
    def _swept(self) -> bool:
        return self._sweep % 2 == 1

    def _enter(self) -> None:
        # A sweep that starts after this waits for the end of the transaction before it deletes anything.
        (row,) = self._connection.query(_ENTER)
        sweep = row["sweep"]
        if sweep != self._sweep:
            self.forget()
            self._sweep = sweep

    def _make(
        self,
        names: Collection[str],
        stacks: Collection[str],
        processes: Collection[Process],
        descriptions: Mapping[Process, Description],
    ) -> bool:
        # Returns whether anything was written.
        made = self._ensure_names(names)
        made = self._ensure_stacks(stacks) or made
        made = self._ensure_processes([*processes, *descriptions]) or made
        return describe(self._connection, {self._processes[one]: what for one, what in descriptions.items()}) or made

    def _ensure_names(self, names: Iterable[str]) -> bool:
        missing = self._names.missing(names, self._swept)
        self._names.make(missing)
        return bool(missing)

    def _ensure_stacks(self, stacks: Iterable[str]) -> bool:
        missing = self._stacks.missing(stacks, self._swept)
        if not missing:
            return False
        frames = {frame for stack in missing.values() for frame in stack.split(";")}
        self._frames.make(self._frames.missing(frames, self._swept))
        keys = self._frames.keys(frames)
        self._stacks.make(
            {digest: f"{{{','.join(str(keys[one]) for one in stack.split(';'))}}}" for digest, stack in missing.items()}
        )
        return True

    def _ensure_processes(self, processes: Iterable[Process]) -> bool:
        missing = sorted({one for one in processes if one not in self._processes})
        made = False
        # Looks again for entries that another writer has created meanwhile.
        for statement in (*((_RESCUE,) if self._swept else ()), _FIND, _MAKE, _FIND):
            if missing:
                made = made or statement is _MAKE
                columns = zip(_COLUMNS, zip(*missing, strict=True), strict=True)
                found = self._connection.query(statement, {name: integers(values) for name, values in columns})
                if statement is not _RESCUE:
                    self._processes |= {(row["machine"], row["pid"], row["start_ns"]): row["id"] for row in found}
                missing = [one for one in missing if one not in self._processes]
        return made

    def _trim(self) -> None:
        for texts in (self._names, self._frames, self._stacks):
            texts.trim()
        if len(self._processes) > _REMEMBERED:
            for one in list(islice(self._processes, len(self._processes) - _REMEMBERED * 3 // 4)):
                del self._processes[one]
