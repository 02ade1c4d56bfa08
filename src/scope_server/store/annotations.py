"""Annotations in the database: what people and programs say about a moment or a time."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any
from uuid import UUID

from scope_server.store.reading.database import Share


@dataclass(frozen=True)
class Annotation:
    """An annotation; fields as the columns of `store.annotations`."""

    id: str
    time: datetime
    text: str
    until: datetime | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    machine: int | None = None
    pid: int | None = None
    comm: str | None = None
    made_by: str | None = None


class Annotations:
    """Stores and finds annotations.

    Raises:
        StoreUnavailable: from all methods: the database cannot be reached.
    """

    def __init__(self, database: Share) -> None:
        self._database = database

    async def put(self, given: Sequence[Annotation]) -> None:
        """Stores those that are not stored yet."""
        columns = {
            "ids": [one.id for one in given],
            "times": [one.time for one in given],
            "untils": [one.until for one in given],
            "texts": [one.text for one in given],
            "labels": [json.dumps(dict(one.labels)) for one in given],
            "machines": [one.machine for one in given],
            "pids": [one.pid for one in given],
            "comms": [one.comm for one in given],
            "makers": [one.made_by for one in given],
        }
        await self._database.run("put_annotations", columns)

    async def find(
        self,
        *,
        id_: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        machines: Sequence[int] | None = None,
        labels: Mapping[str, str] = MappingProxyType({}),
        most: int = 1,
    ) -> list[dict[str, Any]]:
        """The newest that are about this time, these machines or all, and have these labels."""
        where = {"id": id_, "since": since, "until": until, "machines": machines and list(machines), "most": most}
        return await self._database.fetch("annotations", where | {"labels": json.dumps(dict(labels))})

    async def window(
        self, of: UUID | tuple[str, str], machines: Sequence[int] | None = None
    ) -> tuple[datetime, datetime] | None:
        """The time of an annotation; None: there is none.

        A moment lasts until the next annotation of its machine that has its labels' names. Of a label, a name and a
        value, it is the latest time in which it had this value: from an annotation with it on, until one with another
        value. What has not ended lasts until now.

        Args:
            of: an annotation's id, or a label.
            machines: of the annotations with the label; those about all machines are among them.
        """
        if isinstance(of, UUID):
            found = await self._database.fetch("annotation_window", {"id": of})
        else:
            name, value = of
            where = {"name": name, "label": json.dumps({name: value}), "machines": machines and list(machines)}
            found = await self._database.fetch("label_window", where)
        return (found[0]["since"], found[0]["until"]) if found and found[0]["since"] else None

    async def drop(self, id_: str) -> bool:
        """Deletes one; returns whether it was there."""
        return bool(await self._database.run("drop_annotation", {"id": id_}))
