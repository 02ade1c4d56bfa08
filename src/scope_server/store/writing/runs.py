"""The tasks and runs of records: finds or creates them, and stores their starts and ends."""

from collections.abc import Mapping, Sequence

from scope_server.store.writing.connection import WriterConnection, integers, moments, strings
from scope_server.store.writing.delivery import Batch, Delivery, End, Outcome, Start, Verdict

_FIND = """
SELECT r.id, r.run_id::text AS run_id, t.task_id::text AS task_id, t.machine::bigint AS machine
FROM store.runs r JOIN store.tasks t ON t.id = r.task WHERE r.run_id = ANY($1::text[]::uuid[])"""
_FIND_TASKS = """
SELECT id, task_id::text AS task_id, machine::bigint AS machine FROM store.tasks
WHERE task_id = ANY($1::text[]::uuid[])"""
# A task that this server did not create: a local task of the agent, or one from another database, which is not wanted.
# After a restore, the key of a machine may be unknown, or that of another machine.
_MAKE_TASKS = """
INSERT INTO store.tasks (task_id, machine, origin, probe, definition, wanted, started_by)
SELECT task_id::uuid, w.machine, origin, probe, definition::jsonb, false, started_by
FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[])
     WITH ORDINALITY w (task_id, machine, origin, probe, definition, started_by, machine_id, place)
JOIN store.machines m ON m.id = w.machine AND m.machine_id = w.machine_id
ORDER BY place ON CONFLICT DO NOTHING"""
_MAKE = """
INSERT INTO store.runs (run_id, task, installation, state)
SELECT run_id::uuid, task, installation, 'running'
FROM unnest($1::text[], $2::bigint[], $3::text[]) WITH ORDINALITY w (run_id, task, installation, place)
ORDER BY place ON CONFLICT DO NOTHING"""
# A batch may have created the task with less data.
_DEFINE = """
UPDATE store.tasks t
SET probe = w.probe, definition = w.definition::jsonb, origin = w.origin, started_by = w.started_by
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[]) w (run, probe, definition, origin, started_by)
JOIN store.runs r ON r.id = w.run
WHERE t.id = r.task AND t.definition = '{}'"""
_BEGIN = """
UPDATE store.runs r
SET started = coalesce(r.started, w.started), attach_point = coalesce(r.attach_point, nullif(w.attach_point, '')),
    state = CASE r.state WHEN 'starting' THEN 'running' ELSE r.state END
FROM unnest($1::bigint[], $2::timestamptz[], $3::text[]) w (run, started, attach_point)
WHERE r.id = w.run"""
_END = """
UPDATE store.runs r
SET state = CASE WHEN r.state IN ('stopped', 'failed') THEN r.state ELSE w.state END,
    "end" = coalesce(r."end", w."end"), error = coalesce(r.error, nullif(w.error, '')),
    ended = coalesce(r.ended, w.ended), stopped_by = coalesce(r.stopped_by, w.stopped_by)
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::text[])
     w (run, state, "end", error, ended, stopped_by)
WHERE r.id = w.run"""

_MOST_REMEMBERED = 10_000
_ANOTHER_MACHINES = Outcome(Verdict.REFUSED, "the run or its task belongs to another machine", "another_machine")
_UNREGISTERED = Outcome(Verdict.LATER, "the database does not have the machine: it was restored", "unregistered")


class Runs:
    """Cached runs of one connection. For one thread."""

    def __init__(self, connection: WriterConnection) -> None:
        self._connection = connection
        self._known: dict[str, tuple[int, str, int]] = {}  # run_id: key, task_id, machine

    def ensure(self, deliveries: Sequence[Delivery]) -> list[int | Outcome]:
        """The key of each delivery's run; missing runs are created and committed.

        Or the outcome, if the run or its task belongs to another machine, the run belongs to another task, or the
        machine is not in the database.
        """
        wanted: dict[str, Delivery] = {}
        for one in deliveries:
            if one.run_id not in wanted or isinstance(one.content, Start):
                wanted[one.run_id] = one
        missing = [one for run_id, one in sorted(wanted.items()) if run_id not in self._known]
        unregistered: set[str] = set()
        if missing and (absent := self._find(missing)):
            tasks = self._ensure_tasks(absent)
            unregistered = {one.run_id for one in absent if one.task_id not in tasks}
            ours = [one for one in absent if one.task_id in tasks and tasks[one.task_id][1] == one.machine.key]
            self._connection.query(
                _MAKE,
                {
                    "run_id": strings(one.run_id for one in ours),
                    "task": integers(tasks[one.task_id][0] for one in ours),
                    "installation": strings(one.machine.installation for one in ours),
                },
            )
            self._find(ours)
            self._connection.commit()
        if len(self._known) > _MOST_REMEMBERED:
            self._known = {run_id: self._known[run_id] for run_id in wanted if run_id in self._known}
        return [_UNREGISTERED if one.run_id in unregistered else self._key(one) for one in deliveries]

    def begin(self, starts: Mapping[int, Start]) -> None:
        """Stores the starts of runs by key. Ended runs stay ended."""
        if not starts:
            return
        keys = integers(starts)
        begun = starts.values()
        definitions = {
            "probe": strings(one.probe for one in begun),
            "definition": strings(one.definition for one in begun),
            "origin": strings(one.origin for one in begun),
            "started_by": strings(one.started_by for one in begun),
        }
        self._connection.query(_DEFINE, {"run": keys, **definitions})
        points = {"attach_point": strings(one.attach_point for one in begun)}
        self._connection.query(_BEGIN, {"run": keys, "started": moments([one.started_ns for one in begun]), **points})

    def end(self, ends: Mapping[int, End]) -> None:
        """Stores the ends of runs by key. Known values of an end are kept."""
        if not ends:
            return
        ended = ends.values()
        self._connection.query(
            _END,
            {
                "run": integers(ends),
                "state": strings(one.state for one in ended),
                "end": strings(one.end for one in ended),
                "error": strings(one.error for one in ended),
                "ended": moments([one.ended_ns for one in ended]),
                "stopped_by": strings(one.stopped_by for one in ended),
            },
        )

    def forget(self) -> None:
        """Forgets all cached runs: the transaction was rolled back."""
        self._known.clear()

    def _key(self, delivery: Delivery) -> int | Outcome:
        key, *owner = self._known.get(delivery.run_id, (0, None, None))
        return key if owner == [delivery.task_id, delivery.machine.key] else _ANOTHER_MACHINES

    def _find(self, wanted: Sequence[Delivery]) -> list[Delivery]:
        # Caches existing runs; returns the missing ones.
        found = self._connection.query(_FIND, {"run_ids": strings(one.run_id for one in wanted)})
        self._known |= {row["run_id"]: (row["id"], row["task_id"], row["machine"]) for row in found}
        return [one for one in wanted if one.run_id not in self._known]

    def _ensure_tasks(self, deliveries: Sequence[Delivery]) -> dict[str, tuple[int, int]]:
        wanted: dict[str, Delivery] = {}
        for one in deliveries:
            if one.task_id not in wanted or isinstance(one.content, Start):
                wanted[one.task_id] = one
        found: dict[str, tuple[int, int]] = {}
        for make in (False, True):
            missing = [one for task_id, one in sorted(wanted.items()) if task_id not in found]
            if make and missing:
                self._make_tasks(missing)
            if missing:
                rows = self._connection.query(_FIND_TASKS, {"task_ids": strings(one.task_id for one in missing)})
                found |= {row["task_id"]: (row["id"], row["machine"]) for row in rows}
        return found

    def _make_tasks(self, deliveries: Sequence[Delivery]) -> None:
        starts = [one.content if isinstance(one.content, Start) else None for one in deliveries]
        self._connection.query(
            _MAKE_TASKS,
            {
                "task_id": strings(one.task_id for one in deliveries),
                "machine": integers(one.machine.key for one in deliveries),
                "origin": strings(start.origin if start else "agent" for start in starts),
                "probe": strings(
                    start.probe if start else one.content.probe if isinstance(one.content, Batch) else ""
                    for start, one in zip(starts, deliveries, strict=True)
                ),
                "definition": strings(start.definition if start else "{}" for start in starts),
                "started_by": strings(start.started_by if start else None for start in starts),
                "machine_id": strings(one.machine.machine_id for one in deliveries),
            },
        )
