"""A reader of the local bus in a test, by the format's words: neither the agent's nor the command line's code."""

from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import msgpack
import numpy as np
import zmq


class Listener:
    """Reads topics for the duration of a `with` block.

    Attributes:
        batches: the last frames, in order.
        schemas: type by column, by stream, from the second frames.
    """

    def __init__(self, state: Path, *topics: str) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.SUB)
        self._socket.connect(f"ipc://{state}/bus/socket")
        for topic in topics or ("",):
            self._socket.subscribe(topic)
        self.batches: list[dict[str, Any]] = []
        self.schemas: dict[str, dict[str, str]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._context.destroy(linger=0)

    def read(self) -> Self:
        """Takes the messages that have arrived."""
        while not self._socket.closed and self._socket.poll(0):
            topic, schema, frame = self._socket.recv_multipart()
            batch = msgpack.unpackb(frame)
            assert topic.decode() == f"{batch['stream']}/{batch['task']}"
            self.schemas[batch["stream"]] = {name: kind for name, kind, _ in msgpack.unpackb(schema)}
            self.batches.append(batch)
        return self

    def of(self, stream: str) -> list[dict[str, Any]]:
        return [batch for batch in self.read().batches if batch["stream"] == stream]

    def ended(self, stream: str) -> bool:
        """Whether the end of the stream's run was told."""
        return any(batch["ended"] for batch in self.of(stream))

    def newest(self, stream: str) -> int:
        """`ktime_ns` of the newest row of a stream; 0: there is none."""
        filled = [batch for batch in self.of(stream) if batch["events"]]
        return values(filled[-1]["columns"]["ktime_ns"], self.schemas[stream]["ktime_ns"])[-1] if filled else 0

    def rows(self, stream: str) -> list[dict[str, Any]]:
        """The rows of a stream as dicts, in order of arrival."""
        rows: list[dict[str, Any]] = []
        for batch in self.of(stream):
            if batch["events"]:
                kinds = self.schemas[stream]
                columns = {name: values(batch["columns"][name], kind) for name, kind in kinds.items()}
                rows += [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return rows


def values(column: dict[str, Any], kind: str) -> list[Any]:
    """A column's values as Python's."""
    if kind.startswith("list"):
        items = values(column["items"], kind[5:-1])
        ends = [0, *np.frombuffer(column["ends"], "uint32").tolist()]
        found: list[Any] = [items[first:last] for first, last in pairwise(ends)]
    elif kind == "text":
        found = [column["texts"][index] for index in np.frombuffer(column["data"], "int32")]
    else:
        found = np.frombuffer(column["data"], kind).tolist()
    absent = column.get("absent", bytes(len(found)))
    return [None if is_absent else value for value, is_absent in zip(found, absent, strict=True)]
