"""The file of wanted tasks: with it, a restarted agent continues without waiting for its server.

STATE/tasks.json    the tasks with the fields of `Wanted`, the number of the server's last message of wanted tasks, and
                    the digest of the server's authority; replaced as a whole
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
        started_by: the person who started it through AgentControl; empty: the server did.
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
    started_by: str = ""


class WantedFile:
    """Reads and replaces the file.

    Args:
        authority: digest of the server's authority; a number from a server of another authority means nothing.

    Attributes:
        number: of the last message of wanted tasks; the next `write` keeps it. 0: none.
        behind: the last list could not be written, for example on a full disk; write it again later.
    """

    def __init__(self, file: Path, authority: str = "") -> None:
        self._file, self._authority = file, authority
        self.number = 0
        self.behind = False

    def read(self) -> list[Wanted]:
        """The wanted tasks. A damaged file is renamed and logged."""
        try:
            kept = json.loads(self._file.read_text())
            if isinstance(kept, list):  # of version 0.1.0
                return [_from_json(one) for one in kept]
            wanted = [_from_json(one) for one in kept["tasks"]]
            self.number = int(kept["number"]) if kept["authority"] == self._authority else 0
            return wanted
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
            tasks = [_to_json(one) for one in wanted]
            kept = {"number": self.number, "authority": self._authority, "tasks": tasks}
            self._replace(json.dumps(kept, indent=1))
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
        "started_by": wanted.started_by,
    }


def _from_json(kept: dict[str, Any]) -> Wanted:
    return Wanted(
        task_id=str(kept["task_id"]),
        origin=task_pb2.Origin.Value(kept["origin"]),
        definition=json_format.ParseDict(kept["definition"], task_pb2.Definition()),
        deadline_ns=int(kept["deadline_ns"]),
        target_start=int(kept["target_start"]),
        boot=str(kept["boot"]),
        started_by=str(kept.get("started_by", "")),  # of version 0.1.0: absent
    )
