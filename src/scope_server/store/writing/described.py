"""Stores agents' descriptions of processes. The newest value wins; unknown values do not overwrite known ones."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields

from scope_server.store.writing.connection import WriterConnection, integers, strings
from scope_server.store.writing.delivery import ProcessFacts

_LOCK = "SELECT id FROM store.processes WHERE id = ANY($1::bigint[]) ORDER BY id FOR NO KEY UPDATE"
_DESCRIBE = """
UPDATE store.processes p
SET described_ns = greatest(p.described_ns, w.as_of_ns),
    parent_pid = CASE WHEN newer THEN coalesce(w.parent_pid, p.parent_pid)
                                 ELSE coalesce(p.parent_pid, w.parent_pid) END,
    exe = CASE WHEN newer THEN coalesce(w.exe, p.exe) ELSE coalesce(p.exe, w.exe) END,
    cmdline = CASE WHEN newer THEN coalesce(w.cmdline, p.cmdline) ELSE coalesce(p.cmdline, w.cmdline) END,
    cgroup = CASE WHEN newer THEN coalesce(w.cgroup, p.cgroup) ELSE coalesce(p.cgroup, w.cgroup) END,
    container = CASE WHEN newer THEN coalesce(w.container, p.container) ELSE coalesce(p.container, w.container) END
FROM (
    SELECT w.id, w.as_of_ns, w.parent_pid, w.exe, w.cgroup, w.container, w.as_of_ns >= q.described_ns AS newer,
           (SELECT array_agg(word ORDER BY place)
            FROM jsonb_array_elements_text(w.cmdline::jsonb) WITH ORDINALITY u (word, place)) AS cmdline
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[])
         w (id, as_of_ns, parent_pid, exe, cmdline, cgroup, container)
    JOIN store.processes q ON q.id = w.id
) w
WHERE p.id = w.id"""


@dataclass(frozen=True)
class Description:
    """Facts about a process, and when they were read (CLOCK_BOOTTIME)."""

    facts: ProcessFacts
    as_of_ns: int

    def joined(self, other: "Description") -> "Description":
        """Both combined: the newer value of each fact."""
        newer, older = (self, other) if self.as_of_ns > other.as_of_ns else (other, self)
        facts = {
            field.name: value
            if (value := getattr(newer.facts, field.name)) is not None
            else getattr(older.facts, field.name)
            for field in fields(ProcessFacts)
        }
        return Description(ProcessFacts(**facts), newer.as_of_ns)


def describe(connection: WriterConnection, descriptions: Mapping[int, Description]) -> bool:
    """Stores descriptions by process key, in the open transaction; returns whether there were any."""
    if not descriptions:
        return False
    ordered = sorted(descriptions.items())
    facts = [one.facts for _, one in ordered]
    connection.query(_LOCK, {"ids": integers(key for key, _ in ordered)})  # in order: see `Texts`
    connection.query(
        _DESCRIBE,
        {
            "id": integers(key for key, _ in ordered),
            "as_of_ns": integers(one.as_of_ns for _, one in ordered),
            "parent_pid": integers(one.parent_pid for one in facts),
            "exe": strings(one.exe for one in facts),
            "cmdline": strings(None if one.cmdline is None else json.dumps(one.cmdline) for one in facts),
            "cgroup": strings(one.cgroup for one in facts),
            "container": strings(one.container for one in facts),
        },
    )
    return True
