"""What `GET /why` answers."""

from datetime import datetime

from pydantic import Field

from scope_server.api.resources.losses import LossInTime
from scope_server.api.routing.models import Answer, Recorded
from scope_views.why.request import PARTS


class WallTime(Answer):
    """Wall time of threads, in ns."""

    total_ns: int
    on_cpu_ns: int
    run_queue_ns: int
    blocked_ns: int = Field(description="from `sched`: asleep, for whatever reason")


class ThreadTime(WallTime):
    """The wall time of a thread."""

    tid: int
    name: str | None


class CallTime(Answer):
    """A call in which threads were blocked."""

    call: str | None
    file_kind: str | None
    path: str | None
    disk: str | None = Field(description="of the file's file system; null: it is not on one block device")
    remote: str | None = Field(description="the peer of the socket; null: it has none, or these are many small ones")
    remote_port: int | None
    count: int
    blocked_ns: int


class SyscallTime(Answer):
    """A syscall with all its calls."""

    name: str | None
    count: int
    errors: int
    total_ns: int


class FileTime(Answer):
    """A file that the process read or wrote."""

    path: str | None
    read_ns: int
    write_ns: int
    read_bytes: int
    write_bytes: int


class FaultTime(Answer):
    """Page faults of a kind; their time is part of the wall time."""

    kind: str | None
    count: int
    total_ns: int


class LockTime(Answer):
    """Waits for a lock in the process's memory, by the thread that gave it up."""

    address: str = Field(description="in hexadecimal digits")
    holder: str | None = Field(description="name of the thread that held the lock and gave it up; null: unknown")
    holder_tid: int | None
    count: int
    total_ns: int


class DiskTime(Answer):
    """Requests to a disk that the process caused."""

    disk: str | None
    operation: str | None
    count: int
    bytes: int
    queue_ns: int = Field(description="before the disk got them")
    device_ns: int


class Peer(Answer):
    """TCP connections with a peer."""

    remote: str | None
    port: int | None = Field(description="of the server")
    direction: str | None
    begun: int
    failed: int
    sent_bytes: int
    received_bytes: int
    retransmits: int
    rtt_ns: int | None = Field(description="mean of the smoothed round trips; null: none was measured")


class Missing(Answer):
    """A stream without a row of the process in this time."""

    stream: str
    probe: str
    remedy: str


class ProcessTime(WallTime):
    """The wall time of all threads of a process."""

    pid: int
    start_ns: int = Field(description="by the machine's clock since boot; with pid, it identifies the process")
    name: str | None
    stream: str = Field(description="the stream that tells")


class RequestPart(Answer):
    """A part of a request's time."""

    part: str = Field(description=f"one of {', '.join(PARTS)}")
    ns: int


class RequestCause(Answer):
    """Something that slowed pieces of a request, such as tokens."""

    text: str
    pieces: int
    ns: int = Field(description="the time of these pieces")


class RequestTimes(Answer):
    """A time that the row of the request itself has; they may overlap."""

    column: str
    meaning: str
    ns: int


class RequestTime(Answer):
    """A request, or another row that lasted, and where its time went."""

    stream: str
    name: str = Field(description="what it is, for people")
    begin: datetime = Field(description="to the microsecond")
    end: datetime
    duration_ns: int
    tid: int | None = Field(description="the thread that did it; null: several may have worked on it")
    parts: list[RequestPart] = Field(description="they add up to the duration; empty: unknown, `not_split` says why")
    split_by: str | None = Field(description="the stream that tells the parts; null: none does")
    pieces: int = Field(description="rows of `split_by` that belong to the request, such as tokens; 0: it is the row")
    not_split: str | None
    causes: list[RequestCause]
    times: list[RequestTimes]
    where: str = Field(description="a filter that its row meets")


class Why(Recorded):
    """Where the time of a process, of a request and its process, or of a machine's processes went."""

    sentence: str
    machine_id: str
    pid: int | None = Field(description="null: it is about a machine")
    start_ns: int | None
    exe: str | None
    since: datetime = Field(
        description="of all but `request`; of a request, its begin. What is recorded in summary comes once an interval"
    )
    until: datetime = Field(description="of a request, an interval of summaries, 1 s, after its end")
    request: RequestTime | None = Field(description="null: it is not about a request")
    processes: list[ProcessTime] = Field(description="of a machine, those that used and waited for CPUs longest first")
    processes_hidden: int = Field(description="further processes")
    wall: WallTime | None = Field(description="null: not recorded")
    threads_by: str | None = Field(
        description="the stream that tells of the threads; `switch`: exactly for the time of the request"
    )
    threads: list[ThreadTime] = Field(description="those with most time first")
    calls: list[CallTime] = Field(
        description="those in which threads were blocked longest; the wait for a peer is apart if it is worth telling"
    )
    syscalls: list[SyscallTime]
    files: list[FileTime]
    faults: list[FaultTime]
    locks: list[LockTime] = Field(description="those that were waited for longest; part of the calls' time")
    disks: list[DiskTime]
    peers: list[Peer] = Field(description="those with most bytes sent first")
    not_recorded: list[Missing]
    losses: list[LossInTime] = Field(
        description="of the streams that tell, in this time, the newest first: what is said lacks them"
    )
    complete: bool = Field(description="all stored rows of the time were read")
