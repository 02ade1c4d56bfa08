"""Keys of names, processes and tasks: remembered while a connection lives, made in the transaction that needs them."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, TypeVar

import pyarrow as pa

from scope_server.store.connection import WriterConnection, integers, strings
from scope_server.store.rows import Process

K = TypeVar("K", bound=Hashable)
Task = tuple[int, str]  # machine (key), task_id

# Sorted, so that two writers that make the same rows wait for each other and never form a ring.
_MAKE_NAMES = """
INSERT INTO scope.names (text) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING RETURNING id, text"""
_FIND_NAMES = "SELECT id, text FROM scope.names WHERE text = ANY($1::text[])"
_MAKE_PROCESSES = """
INSERT INTO scope.processes (machine, pid, start_ns) SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[])
ON CONFLICT DO NOTHING RETURNING id, machine, pid, start_ns"""
_FIND_PROCESSES = """
SELECT p.id, p.machine, p.pid, p.start_ns FROM scope.processes p
JOIN unnest($1::bigint[], $2::bigint[], $3::bigint[]) w (machine, pid, start_ns)
  ON (p.pid, p.start_ns, p.machine) = (w.pid, w.start_ns, w.machine)"""
# A task that nobody asked this server for: an agent that knows it from another database. It is recorded and ended.
_MAKE_TASKS = """
INSERT INTO scope.tasks (machine, task_id, probe, definition, desired, state)
SELECT machine, task_id::uuid, probe, '{}', 'stopped', 'running'
FROM unnest($1::bigint[], $2::text[], $3::text[]) w (machine, task_id, probe)
ON CONFLICT DO NOTHING"""
_FIND_TASKS = """
SELECT t.id, t.machine, t.task_id::text AS task_id FROM scope.tasks t
JOIN unnest($1::bigint[], $2::text[]) w (machine, task_id) ON t.task_id = w.task_id::uuid AND t.machine = w.machine"""


class Keys(Generic[K]):
    """A bounded memory of keys. What a transaction made counts only once it is committed."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: dict[K, int] = {}
        self._fresh: dict[K, int] = {}

    def missing(self, wanted: Iterable[K]) -> list[K]:
        """Those that are not known, each once."""
        return [key for key in dict.fromkeys(wanted) if key not in self._known and key not in self._fresh]

    def add(self, found: Mapping[K, int]) -> None:
        """Takes keys that hold if the transaction is committed."""
        self._fresh |= found

    def of(self, wanted: Iterable[K]) -> dict[K, int]:
        """The keys of these, as far as they are known."""
        both = ((key, self._fresh.get(key, self._known.get(key))) for key in wanted)
        return {key: number for key, number in both if number is not None}

    def committed(self) -> None:
        """Remembers what the transaction made, and forgets the oldest if they become too many."""
        self._known |= self._fresh
        self._fresh = {}
        excess = len(self._known) - self._limit
        if excess > 0:
            # A quarter at once, so that a full memory does not pay at each commit.
            for key in list(self._known)[: excess + self._limit // 4]:
                del self._known[key]

    def rolled_back(self) -> None:
        """Forgets what the transaction made."""
        self._fresh = {}


class Dimensions:
    """The keys one connection knows. For one thread; belongs to the connection and dies with it."""

    def __init__(self, connection: WriterConnection, limit: int = 200_000) -> None:
        self._connection = connection
        self._names: Keys[str] = Keys(limit)
        self._processes: Keys[Process] = Keys(limit)
        self._tasks: Keys[Task] = Keys(10_000)

    def names(self, wanted: Iterable[str]) -> dict[str, int]:
        """The keys of these names, made where there are none."""
        wanted = list(wanted)
        missing = sorted(self._names.missing(wanted))
        for statement in (_MAKE_NAMES, _FIND_NAMES):
            if missing:
                found = self._connection.query(statement, {"texts": strings(missing)})
                self._names.add({row["text"]: row["id"] for row in found})
                missing = self._names.missing(missing)
        return self._names.of(wanted)

    def processes(self, wanted: Iterable[Process]) -> dict[Process, int]:
        """The keys of these processes, made where there are none."""
        wanted = list(wanted)
        missing = sorted(self._processes.missing(wanted))
        for statement in (_MAKE_PROCESSES, _FIND_PROCESSES):
            if missing:
                columns = zip(("machine", "pid", "start_ns"), zip(*missing, strict=True), strict=True)
                found = self._connection.query(statement, {name: integers(values) for name, values in columns})
                self._processes.add({(row["machine"], row["pid"], row["start_ns"]): row["id"] for row in found})
                missing = self._processes.missing(missing)
        return self._processes.of(wanted)

    def tasks(self, wanted: Mapping[Task, str]) -> dict[Task, int]:
        """The keys of these tasks; the values are their probes. One that belongs to another machine has none."""
        for make in (False, True):
            missing = sorted(self._tasks.missing(wanted))
            if not missing:
                break
            parameters: dict[str, pa.Array] = {
                "machine": integers([machine for machine, _ in missing]),
                "task_id": strings(task_id for _, task_id in missing),
            }
            if make:
                probes = strings(wanted[task] for task in missing)
                self._connection.query(_MAKE_TASKS, parameters | {"probe": probes})
            found = self._connection.query(_FIND_TASKS, parameters)
            self._tasks.add({(row["machine"], row["task_id"]): row["id"] for row in found})
        return self._tasks.of(wanted)

    def committed(self) -> None:
        """The transaction was committed: its keys hold."""
        for keys in (self._names, self._processes, self._tasks):
            keys.committed()

    def rolled_back(self) -> None:
        """The transaction was rolled back: its keys do not hold."""
        for keys in (self._names, self._processes, self._tasks):
            keys.rolled_back()
