"""The file of wanted tasks: with it, a restarted agent continues without waiting for its server.

STATE/tasks.json    a list of tasks with the fields of `Wanted`; replaced as a whole
"""

import json
import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import json_format

from scope_proto.scope.v1 import task_pb2

log = logging.getLogger(__name__)


@dataclass
class Wanted:
    """A task that is wanted.

    Attributes:
        deadline_ns: when the duration is over, since 1970 UTC; 0: before the first start, or no duration.
        target_start: for a target pid, when that process started (clock ticks since boot), so that another process with
            the same pid does not match. 0: not known yet.
        boot: id of the boot that `target_start` counts from.
    """

    task_id: str
    origin: "task_pb2.Origin.ValueType"
    definition: task_pb2.Definition
    deadline_ns: int = 0
    target_start: int = 0
    boot: str = ""


class WantedFile:
    """Reads and replaces the file.

    Attributes:
        behind: the last list could not be written, for example on a full disk; write it again later.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self.behind = False

    def read(self) -> list[Wanted]:
        """The wanted tasks. A damaged file is renamed and logged."""
        try:
            return [_from_json(one) for one in json.loads(self._file.read_text())]
        except FileNotFoundError:
            return []
        except (ValueError, KeyError, TypeError, json_format.ParseError) as error:
            aside = self._file.with_suffix(".damaged")
            self._file.replace(aside)
            log.error("the list of wanted tasks is damaged", extra={"kept": str(aside), "reason": str(error)})
            return []

    def write(self, wanted: Iterable[Wanted]) -> None:
        """Replaces the list. A failure is logged once and sets `behind`: until it is repaired, a restart would lose
        tasks."""
        try:
            self._replace(json.dumps([_to_json(one) for one in wanted], indent=1))
            self.behind = False
        except OSError as error:
            if not self.behind:
                log.error(
                    "cannot write the file of wanted tasks", extra={"file": str(self._file), "reason": error.strerror}
                )
            self.behind = True

    def _replace(self, text: str) -> None:
        fresh = self._file.with_suffix(".new")
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        fresh.replace(self._file)


def _to_json(wanted: Wanted) -> dict[str, Any]:
    return {
        "task_id": wanted.task_id,
        "origin": task_pb2.Origin.Name(wanted.origin),
        "definition": json_format.MessageToDict(wanted.definition, preserving_proto_field_name=True),
        "deadline_ns": wanted.deadline_ns,
        "target_start": wanted.target_start,
        "boot": wanted.boot,
    }


def _from_json(kept: dict[str, Any]) -> Wanted:
    return Wanted(
        task_id=str(kept["task_id"]),
        origin=task_pb2.Origin.Value(kept["origin"]),
        definition=json_format.ParseDict(kept["definition"], task_pb2.Definition()),
        deadline_ns=int(kept["deadline_ns"]),
        target_start=int(kept["target_start"]),
        boot=str(kept["boot"]),
    )
