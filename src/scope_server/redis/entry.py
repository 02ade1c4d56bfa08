"""A record as an entry of a Redis stream: what a writer needs of it, and which receiver waits for its outcome."""

import json
import zlib
from collections.abc import Callable, Mapping

from scope_catalogue.description import read, written
from scope_proto.scope.v1.record_pb2 import Record
from scope_server.errors import Rejected
from scope_server.ingest.descriptions import Description
from scope_server.ingest.pending import Pending
from scope_server.machine import Machine
from scope_server.store.writing.delivery import Outcome, Verdict

PARTITIONS = 16

Fields = Mapping[bytes, bytes]


def partition_of(pending: Pending) -> int:
    """The partition of a record's run. All receivers say the same."""
    return zlib.crc32(pending.record.run_id) % PARTITIONS


def fields_of(pending: Pending, receiver: str, number: int) -> dict[str, bytes]:
    """The fields of a record's entry.

    Args:
        receiver: the server whose agent waits.
        number: by which the receiver knows the record.
    """
    machine, rejected = pending.machine, pending.rejected
    about = {
        "receiver": receiver,
        "number": number,
        "machine": [machine.key, machine.machine_id, machine.installation, machine.boot_to_utc_ns],
        "weight": pending.weight,
        "rejected": [rejected.code, str(rejected)] if rejected else None,
    }
    found = {"about": json.dumps(about).encode(), "record": pending.record.SerializeToString()}
    return found | ({"described": written(pending.described.stream)} if pending.described else {})


def waiting(fields: Fields) -> tuple[str, int]:
    """Who waits for the outcome of an entry's record: the receiver, and its number.

    Raises:
        KeyError, ValueError, TypeError: it is no entry.
    """
    about = json.loads(fields[b"about"])
    return str(about["receiver"]), int(about["number"])


def pending_of(fields: Fields, answer: Callable[[Outcome], None]) -> Pending:
    """The record of an entry, for the backlog of a writer.

    Raises:
        Exception: another version wrote the entry.
    """
    about = json.loads(fields[b"about"])
    described = fields.get(b"described")
    return Pending(
        Record.FromString(fields[b"record"]),
        Machine(*about["machine"]),
        about["weight"],
        answer,
        Rejected(*about["rejected"]) if about["rejected"] else None,
        Description(read(described)) if described else None,
    )


def told(outcome: Outcome) -> str:
    """An outcome, as it is told to the receiver."""
    return json.dumps([outcome.verdict.value, outcome.reason, outcome.code])


def outcome_of(text: bytes) -> Outcome:
    """The outcome that was told."""
    verdict, reason, code = json.loads(text)
    return Outcome(Verdict(verdict), reason, code)
