"""Makes records from raw batches: compressed Arrow columns with a sequence number and the current event counts."""

from collections.abc import Iterator

from scope_agentd.pipeline.books import BATCH, Books
from scope_agentd.pipeline.columns import compressed
from scope_agentd.pipeline.describe import MOST_DESCRIBED_BYTES, Describer
from scope_bpf.capture.batch import Batch
from scope_bpf.capture.clock import boot_ns, boot_to_utc_ns
from scope_bpf.capture.columns import to_arrow
from scope_catalogue.stream import fingerprint
from scope_proto.scope.v1 import record_pb2
from scope_views.choice import Choice
from scope_wire.limits import RECORD_BYTES

MOST_BYTES = (
    RECORD_BYTES - MOST_DESCRIBED_BYTES - (16 << 10)
)  # of columns; the rest of a record is for processes and counts


class Batcher:
    """Builds a run's records. Each stream's batches are numbered from 1. For one thread.

    Args:
        choice: the rows that the task's filter takes.
    """

    def __init__(self, run_id: bytes, task_id: bytes, books: Books, describer: Describer, choice: Choice) -> None:
        self._run_id, self._task_id, self._books, self._describer = run_id, task_id, books, describer
        self._choice = choice
        self._sequences = dict.fromkeys(books.streams, 0)
        self._fingerprints: dict[str, str] = {}
        self._told: dict[str, record_pb2.Account] = {}

    @property
    def last_sequences(self) -> dict[str, int]:
        """The last sequence number by stream; 0: none."""
        return dict(self._sequences)

    def build(self, raw: Batch) -> Iterator[record_pb2.Record]:
        """The records of a batch: one, several if the compressed batch is too large for one record, or none if the
        filter takes no row.

        A single row that is too large is counted as lost, and rows that the filter does not take as left out.

        Raises:
            KernelError, pyarrow.ArrowException: the remaining rows cannot be converted to columns.
        """
        stream = raw.stream.name
        self._describer.notice(raw)
        rows = to_arrow(raw)
        joined = self._describer.memberships.joined(rows, self._choice.of_process(stream))
        chosen = self._choice.of(stream, joined).select(rows.schema.names)
        self._books.leave_out(stream, raw.count - chosen.num_rows)
        for columns, ipc in compressed(chosen, MOST_BYTES) if chosen.num_rows else ():
            if ipc is None:
                self._books.lose(stream, BATCH, "too_large", columns.num_rows)
                continue
            times = columns["ktime_ns"].to_numpy()
            before = self._books.sequenced()[stream]
            self._sequences[stream] += 1
            self._books.sequence(stream, columns.num_rows)
            account = self._told[stream] = self._books.account(stream)
            yield self.record(
                batch=record_pb2.Batch(
                    stream=stream,
                    sequence=self._sequences[stream],
                    event_count=columns.num_rows,
                    events_before=before,
                    first_ktime_ns=int(times.min()),
                    last_ktime_ns=int(times.max()),
                    boot_to_utc_ns=boot_to_utc_ns(),
                    schema_fingerprint=self._fingerprint(raw),
                    arrow_ipc=ipc,
                    account=account,
                    processes=self._describer.take(),
                )
            )

    def changed_accounts(self) -> record_pb2.Record | None:
        """A record with the counts of all streams; None if no count has changed since the last report."""
        accounts = self._books.accounts()
        if all(account == self._told.get(stream, record_pb2.Account()) for stream, account in accounts.items()):
            return None
        self._told = accounts
        return self.record(accounts=self.accounts())

    def accounts(self) -> record_pb2.Accounts:
        """The current counts of all streams."""
        return record_pb2.Accounts(streams=self._books.accounts(), ktime_ns=boot_ns(), boot_to_utc_ns=boot_to_utc_ns())

    def record(self, **content: object) -> record_pb2.Record:
        """A record of this run; `content` names one field of the record's oneof."""
        return record_pb2.Record(run_id=self._run_id, task_id=self._task_id, **content)  # type: ignore[arg-type]

    def _fingerprint(self, raw: Batch) -> str:
        name = raw.stream.name
        if name not in self._fingerprints:
            self._fingerprints[name] = fingerprint(raw.schema)
        return self._fingerprints[name]
