"""Stores agents' descriptions of processes. The newest value wins; unknown values do not overwrite known ones."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields

from scope_server.store.writing.connection import WriterConnection, integers, strings
from scope_server.store.writing.delivery import ProcessFacts

_LOCK = "SELECT id FROM store.processes WHERE id = ANY($1::bigint[]) ORDER BY id FOR NO KEY UPDATE"
# Facts about where a process runs, which replace those of the place that it has left.
_PLACE = ("container_id", "container", "image", "pod", "namespace", "unit")
_TEXTS = ("exe", "cmdline", "cgroup", *_PLACE)


def _newest(name: str) -> str:
    newest = f"WHEN newer THEN coalesce(w.{name}, p.{name}) ELSE coalesce(p.{name}, w.{name}) END"
    moved = f"WHEN moved AND newer THEN w.{name} WHEN moved THEN p.{name} " if name in _PLACE else ""
    return f"CASE {moved}{newest}"


_DESCRIBE = f"""
UPDATE store.processes p
SET described_ns = greatest(p.described_ns, w.as_of_ns),
    {", ".join(f"{name} = {_newest(name)}" for name in ("parent_pid", *_TEXTS))}
FROM (
    SELECT w.id, w.as_of_ns, w.parent_pid, w.exe, w.cgroup, {", ".join(f"w.{name}" for name in _PLACE)},
           w.as_of_ns >= q.described_ns AS newer,
           w.cgroup IS NOT NULL AND q.cgroup IS NOT NULL
               AND (w.cgroup, w.container_id) IS DISTINCT FROM (q.cgroup, q.container_id) AS moved,
           (SELECT array_agg(word ORDER BY place)
            FROM jsonb_array_elements_text(w.cmdline::jsonb) WITH ORDINALITY u (word, place)) AS cmdline
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], {", ".join(f"${4 + n}::text[]" for n in range(len(_TEXTS)))})
         w (id, as_of_ns, parent_pid, {", ".join(_TEXTS)})
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
        one, before = newer.facts, older.facts
        places = {(facts.cgroup, facts.container_id) for facts in (one, before) if facts.cgroup is not None}
        moved = len(places) > 1
        facts = {
            field.name: value
            if (value := getattr(one, field.name)) is not None or (moved and field.name in _PLACE)
            else getattr(before, field.name)
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
            **{name: strings(_text(one, name) for one in facts) for name in _TEXTS},
        },
    )
    return True


def _text(facts: ProcessFacts, name: str) -> str | None:
    value: str | tuple[str, ...] | None = getattr(facts, name)
    return json.dumps(value) if isinstance(value, tuple) else value
