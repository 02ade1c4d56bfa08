"""Calls of the server's API, with the types of bodies and answers.

DO NOT EDIT: made by `make client` from the routes in src/scope_server/api.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, BinaryIO, Literal, NotRequired, TypedDict

from scope_cli.server_events import ServerEvent


class Added(TypedDict):
    """The account is there."""

    id: str


class AddedUp(TypedDict):
    """How a stream's rows are added up by the minute."""

    by: list[str]
    measured: str | None


class LossInTime(TypedDict):
    """Events that are not stored."""

    stream: str
    place: str
    reason: str
    count: int | None
    since: str
    until: str | None
    task_id: str
    machine_id: str
    hostname: str
    run_ended_by: Literal["shutdown", "killed", "failure"] | None


class Annotation(TypedDict):
    """What somebody said about a moment or a time."""

    id: str
    time: str
    until: str | None
    text: str
    labels: dict[str, str]
    machine_id: str | None
    hostname: str | None
    pid: int | None
    comm: str | None
    made_by: str | None


class ApiToken(TypedDict):
    """A token for scripts, without the token itself."""

    id: str
    name: str
    owner: str
    role: str
    created: str
    expires: str
    revoked: str | None


class AuditEntry(TypedDict):
    """What somebody did."""

    number: int
    time: str
    actor: str
    address: str
    act: str
    object: str
    detail: dict[str, Any]


class AuditVerdict(TypedDict):
    """Whether the log is as it was written."""

    entries: int
    digest: str
    fault: str


class AuthorityCertificate(TypedDict):
    """The certificate of the fleet's authority."""

    authority: str


class Loss(TypedDict):
    """Lost events."""

    place: str
    reason: str
    count: int


class CallTime(TypedDict):
    """A call in which threads were blocked."""

    call: str | None
    file_kind: str | None
    path: str | None
    disk: str | None
    remote: str | None
    remote_port: int | None
    count: int
    blocked_ns: int


class Cause(TypedDict):
    """What slows rows, with the share of rows that it slowed."""

    text: str
    inside: float
    outside: float


class Certificate(TypedDict):
    """A certificate that the authority has signed."""

    serial: str
    kind: str
    name: str
    role: str | None
    hostname: str | None
    issued: str
    expires: str
    revoked: str | None


class Changed(TypedDict):
    """The account is changed."""

    email: str


class Shares(TypedDict):
    """A value, and the share of the rows that have it."""

    value: str | None
    inside: float
    outside: float


class Conflict(TypedDict):
    """An agent that was refused because another has its machine id."""

    hostname: str
    time: str


class Cost(TypedDict):
    """What a task's BPF programs cost, by the kernel's statistics."""

    cpu_share: float
    ns_per_run: float
    runs_per_second: float


class Credentials(TypedDict):
    """Who logs in."""

    email: str
    password: str
    device: NotRequired[str]
    cookie: NotRequired[bool]


class Day(TypedDict):
    """A day that is stored."""

    day: str
    bytes: int


class Deleted(TypedDict):
    """The template is gone."""

    name: str


class DeletedAnnotation(TypedDict):
    """The annotation is gone."""

    id: str


class FrameDifference(TypedDict):
    """A frame of the stacks, and the share of the rows with a stack in whose stack it is."""

    column: str
    frame: str
    inside: float
    outside: float
    sure: float


class RowsRead(TypedDict):
    """How many rows there are on a side, and how many of them were compared."""

    rows: int
    read: int
    complete: bool


class Differs(TypedDict):
    """A value that most rows do not have."""

    column: str
    value: str | int | float | bool | None
    usual: str | int | float | bool | None
    sentence: str


class DiskTime(TypedDict):
    """Requests to a disk that the process caused."""

    disk: str | None
    operation: str | None
    count: int
    bytes: int
    queue_ns: int
    device_ns: int


class Document(TypedDict):
    """An OpenAPI document."""

    openapi: str
    info: dict[str, Any]
    servers: list[dict[str, Any]]
    security: list[dict[str, Any]]
    components: dict[str, Any]
    paths: dict[str, Any]


class Done(TypedDict):
    """It is done."""

    done: bool


class Dropped(TypedDict):
    """The record is deleted."""

    dropped: bool


class DroppedDay(TypedDict):
    """A deleted day."""

    day: str
    reason: Literal["age", "limit", "floor"]
    rows: int
    bytes: int
    dropped_at: str


class DroppedDays(TypedDict):
    """Numbers of deleted days by reason."""

    age: int
    limit: int
    floor: int


class Entry(TypedDict):
    """A record that could not be stored."""

    id: int
    run_id: str
    machine_id: str
    hostname: str
    stream: str | None
    sequence: int | None
    events: int
    code: str
    reason: str
    received: str
    bytes: int
    kept: bool


class NotRecorded(TypedDict):
    """A time at which a task of the stream was wanted, but did not record. Nobody knows how many events there were."""

    place: Literal["agent"]
    reason: Literal["not_recorded"]
    count: None
    task_id: str
    machine_id: str
    hostname: str
    since: str
    until: str | None
    run_ended_by: str


class FaultTime(TypedDict):
    """Page faults of a kind; their time is part of the wall time."""

    kind: str | None
    count: int
    total_ns: int


class Feature(TypedDict):
    """A feature of a host, such as kernel BTF."""

    name: str
    available: bool
    reason: str


class FileTime(TypedDict):
    """A file that the process read or wrote."""

    path: str | None
    read_ns: int
    write_ns: int
    read_bytes: int
    write_bytes: int


class FlameGraph(TypedDict):
    """How a stream's rows make a flame graph."""

    weight: str | None
    title: str


class Gone(TypedDict):
    """The token is refused from now on."""

    id: str


class Point(TypedDict):
    """The cells of a step; steps without rows have none."""

    time: str
    values: dict[str, int | float | None]


class Part(TypedDict):
    """A probe with options and a filter."""

    probe: str
    options: NotRequired[dict[str, bool | float | str | list[str]] | None]
    where: NotRequired[str | None]


class Target(TypedDict):
    """The processes that a task watches. All fields that are given must match; none: the whole machine."""

    pid: NotRequired[int | None]
    comm: NotRequired[str | None]
    exe: NotRequired[str | None]
    cgroup: NotRequired[str | None]
    container: NotRequired[str | None]


class Health(TypedDict):
    """The server works; otherwise the answer is a problem document."""

    healthy: bool


class Invitation(TypedDict):
    """An invitation. It is shown only here."""

    invitation: str


class Inviting(TypedDict):
    """Who is invited."""

    email: str
    role: NotRequired[Literal["viewer", "operator", "admin"]]


class JoinToken(TypedDict):
    """A token with which machines join; it is shown this once."""

    token: str
    valid: float
    uses: int
    labels: dict[str, str]
    addresses: list[str]


class StreamColumn(TypedDict):
    """A column of a stream."""

    name: str
    type: str
    unit: str
    meaning: str
    hex: bool
    stack: bool
    cut_if: str | None
    codes: Literal["error", "signal"] | None


LabelChanges = dict[str, str | None]


class Labelled(TypedDict):
    """All labels of a machine."""

    labels: dict[str, str]


class Lane(TypedDict):
    """A thread, with a time in ns per step. What is in none of its lists is unknown, or the thread was not there."""

    tid: int
    name: str | None
    on_cpu_ns: list[int]
    run_queue_ns: list[int]
    blocked_ns: list[int]


class LockTime(TypedDict):
    """Waits for a lock in the process's memory, by the thread that gave it up."""

    address: str
    holder: str | None
    holder_tid: int | None
    count: int
    total_ns: int


class PartTime(TypedDict):
    """A part of the rows' duration, in ns of the mean row."""

    column: str
    meaning: str
    inside_ns: float
    outside_ns: float


class Unrecorded(TypedDict):
    """A time in which no task recorded."""

    since: str
    until: str


class Me(TypedDict):
    """Who calls."""

    name: str
    role: str


class Member(TypedDict):
    """The machine that was meant."""

    machine_id: str


class Missing(TypedDict):
    """A stream without a row of the process in this time."""

    stream: str
    probe: str
    remedy: str


class NewAnnotation(TypedDict):
    """What to say, about which time; without a time, about now."""

    text: str
    time: NotRequired[str | None]
    until: NotRequired[str | None]
    labels: NotRequired[dict[str, str]]
    node: NotRequired[str | None]


class NewPassword(TypedDict):
    """A new password of the caller."""

    password: str
    new_password: str


class NewToken(TypedDict):
    """What a token is for."""

    name: str
    role: NotRequired[Literal["viewer", "operator", "admin"]]
    valid: NotRequired[float]


class NewUser(TypedDict):
    """A new account."""

    email: str
    password: str
    role: NotRequired[Literal["viewer", "operator", "admin"]]


class Spool(TypedDict):
    """What waits on a machine to be sent."""

    bytes: int
    limit_bytes: int
    records: int
    dropped_records: int
    deferred_records: int


class Quantiles(TypedDict):
    """Of the rows that have the number; null: none has."""

    p50: float | None
    p90: float | None
    p99: float | None


class TextSchema(TypedDict):
    """The JSON Schema of a text in a list."""

    type: Literal["string"]
    pattern: str


class Peer(TypedDict):
    """TCP connections with a peer."""

    remote: str | None
    port: int | None
    direction: str | None
    begun: int
    failed: int
    sent_bytes: int
    received_bytes: int
    retransmits: int
    rtt_ns: int | None


class Trial(TypedDict):
    """An option with which a probe was tried, besides the default ones."""

    option: str
    reason: str


class ProbeColumn(TypedDict):
    """A column of a stream."""

    name: str
    type: str
    unit: str
    meaning: str


class Process(TypedDict):
    """A process."""

    pid: int
    start_ns: int
    parent_pid: int | None
    parent_start_ns: int | None
    comm: str | None
    exe: str | None
    cmdline: list[str] | None
    container: str | None
    started: str | None
    ended: str | None
    exit_code: int | None
    signal: int | None
    on_cpu_ns: int | None
    run_queue_ns: int | None


class ProcessTime(TypedDict):
    """The wall time of all threads of a process."""

    total_ns: int
    on_cpu_ns: int
    run_queue_ns: int
    blocked_ns: int
    pid: int
    start_ns: int
    name: str | None
    stream: str


class Refreshing(TypedDict):
    """A refresh token."""

    refresh_token: NotRequired[str]


class Refused(TypedDict):
    """A task that was not started."""

    node: str
    hostname: str
    probe: str
    reason: str


class Registered(TypedDict):
    """The account is there; it can log in."""

    email: str


class Registering(TypedDict):
    """Who may make an account."""

    who: Literal["invited", "anybody"]


class Registration(TypedDict):
    """A new account."""

    email: str
    password: str
    invitation: NotRequired[str]


class Replica(TypedDict):
    """A replica of the database that answers queries."""

    name: str
    state: str
    age_s: float | None


class RequestCause(TypedDict):
    """Something that slowed pieces of a request, such as tokens."""

    text: str
    pieces: int
    ns: int


class RequestPart(TypedDict):
    """A part of a request's time."""

    part: str
    ns: int


class RequestTimes(TypedDict):
    """A time that the row of the request itself has; they may overlap."""

    column: str
    meaning: str
    ns: int


class Revoked(TypedDict):
    """How many certificates were revoked."""

    revoked: int


Role = Literal["viewer", "operator", "admin"]


class RotatingMachine(TypedDict):
    """A machine while the authority is replaced."""

    machine_id: str
    hostname: str
    connected: bool
    has_next: bool


class Signed(TypedDict):
    """A person's certificate."""

    certificate: str
    authority: str


class States(TypedDict):
    """Groups of states that have not ended, the largest first; groups of ended processes last."""

    age_s: float
    groups: list[dict[str, Any]]


class Stored(TypedDict):
    """The record is stored."""

    stored: bool


class SyscallTime(TypedDict):
    """A syscall with all its calls."""

    name: str | None
    count: int
    errors: int
    total_ns: int


class TemplatePart(TypedDict):
    """A probe of a template."""

    probe: str
    options: dict[str, bool | float | str | list[str]]
    where: str | None


class ThreadTime(TypedDict):
    """The wall time of a thread."""

    total_ns: int
    on_cpu_ns: int
    run_queue_ns: int
    blocked_ns: int
    tid: int
    name: str | None


class Token(TypedDict):
    """A token. It is shown only here."""

    token: str


class TokenWish(TypedDict):
    """A token with which machines may join."""

    valid: NotRequired[float]
    uses: NotRequired[int]
    labels: NotRequired[dict[str, str]]


class Tokens(TypedDict):
    """What a login gives."""

    access_token: str
    refresh_token: str
    expires_in: int
    device: str
    token_type: str
    csrf_cookie: str


class User(TypedDict):
    """An account."""

    id: str
    email: str
    role: str
    created: str
    seen: str | None
    disabled: str | None


class UserChange(TypedDict):
    """What to change; what is left out stays."""

    role: NotRequired[Literal["viewer", "operator", "admin"] | None]
    disabled: NotRequired[bool | None]
    password: NotRequired[str | None]


class WallTime(TypedDict):
    """Wall time of threads, in ns."""

    total_ns: int
    on_cpu_ns: int
    run_queue_ns: int
    blocked_ns: int


class Heatmap(TypedDict):
    """Counts by step of time and size."""

    age_s: float
    since: str
    until: str
    step_s: float
    column: str
    unit: str
    edges: list[int]
    counts: list[list[int]]
    source: Literal["rollups", "rows"]
    complete: bool
    read_since: str
    losses: list[LossInTime]


class FoundAnnotations(TypedDict):
    """Annotations, the newest first."""

    annotations: list[Annotation]


class ApiTokens(TypedDict):
    """Tokens for scripts."""

    tokens: list[ApiToken]


class AuditEntries(TypedDict):
    """Entries, the newest first."""

    entries: list[AuditEntry]


class Books(TypedDict):
    """Event counts of a stream: emitted = stored + lost + left out + under way."""

    stream: str
    emitted: int
    stored: int
    left_out: int
    under_way: int
    lost: list[Loss]


class Certificates(TypedDict):
    """Certificates."""

    certificates: list[Certificate]


class Run(TypedDict):
    """An execution of a task in one life of its agent."""

    run_id: str
    state: Literal["starting", "running", "stopping", "stopped", "failed"]
    end: Literal["request", "lease", "failure", "shutdown", "killed"] | None
    error: str | None
    attach_point: str | None
    started: str | None
    ended: str | None
    sent_bytes: int
    cost: Cost | None
    notes: list[str]


class SlowRow(TypedDict):
    """A row that took long."""

    row: list[dict[str, Any]]
    longer_ns: int
    differs: list[Differs]


class Storage(TypedDict):
    """What is stored. Sizes are as last measured, at most a minute ago; null if not measured yet, or unknown."""

    bytes: int | None
    wal_bytes: int | None
    limit_bytes: int
    free_bytes: int | None
    floor_bytes: int
    oldest_day: str | None
    days: list[Day]
    dropped_days: DroppedDays
    dropped: list[DroppedDay]
    problem: str | None


class Entries(TypedDict):
    """Records that could not be stored."""

    quarantine: list[Entry]


class EventPage(TypedDict):
    """A page of events, with what was lost of the stream in its time."""

    age_s: float
    events: list[dict[str, Any]]
    next: str | None
    more: bool
    losses: list[Loss | NotRecorded]


class Group(TypedDict):
    """A group: the values of its columns, its cells, and those of its steps."""

    key: dict[str, str | int | float | bool | None]
    values: dict[str, int | float | None]
    points: list[Point]


class NewTemplate(TypedDict):
    """A template to keep."""

    name: str
    meaning: NotRequired[str]
    parts: list[Part]


class GroupWish(TypedDict):
    """Which probes, where: a template or parts; machines by name or by labels."""

    target: NotRequired[Target | None]
    duration: NotRequired[float | None]
    template: NotRequired[str | None]
    parts: NotRequired[list[Part] | None]
    nodes: NotRequired[list[str] | None]
    selector: NotRequired[dict[str, str] | None]


class TaskWish(TypedDict):
    """The definition of a task."""

    target: NotRequired[Target | None]
    duration: NotRequired[float | None]
    probe: str
    options: NotRequired[dict[str, bool | float | str | list[str]] | None]
    where: NotRequired[str | None]
    node: NotRequired[str | None]


class KnownStream(TypedDict):
    """A stream."""

    name: str
    probe: str
    mode: Literal["events", "summary", "samples"]
    meaning: str
    columns: list[StreamColumn]
    of_process: list[StreamColumn]
    rollup: AddedUp
    failed: str
    flame: FlameGraph | None


class Longer(TypedDict):
    """What rows inside took longer for, in the mean."""

    duration: PartTime
    parts: list[PartTime]
    causes: list[Cause]


class Losses(TypedDict):
    """Losses, the newest first. Times of counted losses are within a minute, or of a whole gap."""

    age_s: float
    since: str
    until: str
    losses: list[LossInTime]
    more: bool
    unrecorded: list[Unrecorded]


class WhyTimeline(TypedDict):
    """The threads of a process over time."""

    age_s: float
    machine_id: str
    pid: int
    start_ns: int
    since: str
    until: str
    step_ns: int
    stream: str | None
    interval_ns: int
    lanes: list[Lane]
    lanes_hidden: int
    complete: bool
    not_recorded: list[Missing]


class Node(TypedDict):
    """A machine."""

    machine_id: str
    installation: str
    hostname: str
    kernel: str
    architecture: str
    cpus: int
    memory_bytes: int
    agent_version: str
    booted: str | None
    clock_ahead_ns: int
    first_seen: str
    last_seen: str
    labels: dict[str, str]
    membership: Literal["joined", "unconfirmed", "removed", "revoked"] | None
    joined: str | None
    expires: str | None
    connected: bool
    spool: Spool | None
    conflict: Conflict | None


class Numbers(TypedDict):
    """The numbers of a column."""

    inside: Quantiles
    outside: Quantiles


class OptionSchema(TypedDict):
    """The JSON Schema of an option's value. Keywords that say nothing are absent."""

    type: NotRequired[Literal["integer", "boolean", "string", "array"] | None]
    description: str
    default: NotRequired[bool | float | str | list[str] | None]
    enum: NotRequired[list[str] | None]
    minimum: NotRequired[float | None]
    maximum: NotRequired[float | None]
    items: NotRequired[TextSchema | None]
    minItems: NotRequired[int | None]


class ProbeStream(TypedDict):
    """A stream of a probe."""

    name: str
    meaning: str
    mode: str
    columns: list[ProbeColumn]
    schema_fingerprint: str


class Processes(TypedDict):
    """The processes of a machine, the oldest first."""

    machine_id: str
    since: str
    until: str
    processes: list[Process]
    complete: bool
    not_recorded: list[str]


class Server(TypedDict):
    """The state of the server's parts: `ok`, or what is wrong."""

    healthy: bool
    database: str
    replicas: list[Replica]
    ingest: str
    sessions: str
    redis: str
    waiting_bytes: int
    oldest_waiting_s: float
    agents: int
    refused_peers: dict[str, int]


class RequestTime(TypedDict):
    """A request, or another row that lasted, and where its time went."""

    stream: str
    name: str
    begin: str
    end: str
    duration_ns: int
    tid: int | None
    parts: list[RequestPart]
    split_by: str | None
    pieces: int
    not_split: str | None
    causes: list[RequestCause]
    times: list[RequestTimes]
    where: str


class Signing(TypedDict):
    """A person's key to be signed."""

    name: str
    role: NotRequired[Role]
    signing_request: str


class Rotation(TypedDict):
    """How far the authority's replacement is."""

    rotates: bool
    machines: list[RotatingMachine]


class Template(TypedDict):
    """Probes that answer a question together."""

    name: str
    meaning: str
    parts: list[TemplatePart]
    made_by: str | None
    made: str | None


class Users(TypedDict):
    """Accounts."""

    users: list[User]


class Task(TypedDict):
    """A task."""

    task_id: str
    group_id: str | None
    node: str
    hostname: str
    origin: Literal["server", "agent"]
    probe: str
    wanted: bool
    state: Literal["pending", "starting", "running", "stopping", "stopped", "failed"]
    reason: str | None
    error: str | None
    next_try: str | None
    deadline: str | None
    created: str
    started_by: str | None
    stopped_by: str | None
    cost: Cost | None
    sent_bytes: int
    notes: list[str]
    target: dict[str, int | str]
    options: dict[str, bool | float | str | list[str]]
    where: str | None
    duration: float | None
    streams: list[Books]
    runs: list[Run]


class SlowRows(TypedDict):
    """The slowest rows, the slowest first."""

    age_s: float
    duration: str
    median_ns: int
    read: int
    complete: bool
    compared: int
    slowest: list[SlowRow]


class Aggregates(TypedDict):
    """The top groups of a stream."""

    age_s: float
    since: str
    until: str
    step_s: int | None
    counted: str
    only: str | None
    quantiles: str
    source: Literal["rollups", "rows"]
    complete: bool
    read_since: str
    groups: list[Group]
    losses: list[LossInTime]


class KnownStreams(TypedDict):
    """Streams by name."""

    streams: list[KnownStream]
    codes: dict[str, list[str]]


class Nodes(TypedDict):
    """Machines."""

    nodes: list[Node]


class ColumnDifference(TypedDict):
    """A column whose values differ."""

    column: str
    meaning: str
    unit: str
    difference: float
    sure: float
    values: list[Shares]
    numbers: Numbers | None


class OptionsSchema(TypedDict):
    """The JSON Schema of the options that a task of the probe takes; those that are left out have their defaults."""

    type: Literal["object"]
    properties: dict[str, OptionSchema]
    required: list[str]
    additionalProperties: Literal[False]


class Why(TypedDict):
    """Where the time of a process, of a request and its process, or of a machine's processes went."""

    age_s: float
    sentence: str
    machine_id: str
    pid: int | None
    start_ns: int | None
    exe: str | None
    since: str
    until: str
    request: RequestTime | None
    processes: list[ProcessTime]
    processes_hidden: int
    wall: WallTime | None
    threads_by: str | None
    threads: list[ThreadTime]
    calls: list[CallTime]
    syscalls: list[SyscallTime]
    files: list[FileTime]
    faults: list[FaultTime]
    locks: list[LockTime]
    disks: list[DiskTime]
    peers: list[Peer]
    not_recorded: list[Missing]
    losses: list[LossInTime]
    complete: bool


class Templates(TypedDict):
    """Templates, by name."""

    templates: list[Template]


class StartedGroup(TypedDict):
    """Which tasks were started, and which were refused."""

    group_id: str
    tasks: list[Task]
    refused: list[Refused]


class TaskGroup(TypedDict):
    """Tasks that were started together."""

    group_id: str
    tasks: list[Task]


class Tasks(TypedDict):
    """Tasks, the newest first."""

    tasks: list[Task]


class Difference(TypedDict):
    """What differs inside from outside."""

    age_s: float
    inside: RowsRead
    outside: RowsRead
    longer: Longer | None
    columns: list[ColumnDifference]
    stacks: list[str]
    samples: list[str] | None
    frames: list[FrameDifference]


class Probe(TypedDict):
    """A probe of an agent."""

    name: str
    meaning: str
    streams: list[ProbeStream]
    options: OptionsSchema
    available: bool
    attach_point: str
    reason: str
    no_device: bool
    unseen: list[str]
    tried: list[Trial]


class Probes(TypedDict):
    """What a machine can record, as its agent found it: the report of `scope doctor`."""

    probes: list[Probe]
    host: list[Feature]
    examined: str | None
    connected: bool
    current: bool


class Api(ABC):
    """A method for each route."""

    @abstractmethod
    def get(self, *path: str, **query: object) -> Any:
        """The answer to GET /api/v1/PATH; None and empty values of `query` are left out."""

    @abstractmethod
    def post(self, *path: str, body: object = None) -> Any:
        """The answer to POST /api/v1/PATH with a JSON body."""

    @abstractmethod
    def save(self, file: BinaryIO, *path: str, **query: object) -> str:
        """Writes the answer to GET /api/v1/PATH to a file; returns what was lost of it, empty: nothing."""

    @abstractmethod
    def watch(self, *path: str, **query: object) -> Iterator[ServerEvent]:
        """The events of GET /api/v1/PATH as they come."""

    def get_health(self) -> Health:
        """Whether the server works: the database answers and can be written to, and agents are admitted."""
        answer: Health = self.get("health")
        return answer

    def get_server(self) -> Server:
        """The state of each part of the server, what waits to be written, and refused peers by reason."""
        answer: Server = self.get("server")
        return answer

    def get_storage(self) -> Storage:
        """Storage used, and the days deleted to stay within the limits."""
        answer: Storage = self.get("storage")
        return answer

    def get_nodes(self) -> Nodes:
        """All known machines, whether any server of the fleet has their agents, and the size of their spools."""
        answer: Nodes = self.get("nodes")
        return answer

    def get_probes(self, *, node: str | None = None) -> Probes:
        """What a machine can record, as its agent found last; also while the agent is away."""
        answer: Probes = self.get("probes", node=node)
        return answer

    def label_node(self, node: str, body: LabelChanges) -> Labelled:
        """Set labels of a machine, and delete those that are null; answers with all labels of the machine."""
        answer: Labelled = self.post("nodes", node, "labels", body=body)
        return answer

    def remove_node(self, node: str) -> Member:
        """End the membership of a machine. It may join again, with a new token."""
        answer: Member = self.post("nodes", node, "remove")
        return answer

    def revoke_node(self, node: str) -> Member:
        """End the membership of a machine for good. It may not join again before it was removed."""
        answer: Member = self.post("nodes", node, "revoke")
        return answer

    def confirm_node(self, node: str) -> Member:
        """Accept a machine that is known only by its certificate, because the database was restored."""
        answer: Member = self.post("nodes", node, "confirm")
        return answer

    def get_tasks(
        self,
        *,
        state: Literal["pending", "starting", "running", "stopping", "stopped", "failed", "active"] | None = None,
    ) -> Tasks:
        """Tasks with their event counts, the newest first."""
        answer: Tasks = self.get("tasks", state=state)
        return answer

    def get_task(self, task_id: str) -> Task:
        """A task."""
        answer: Task = self.get("tasks", task_id)
        return answer

    def start_task(self, body: TaskWish) -> Task:
        """Start a task. Answers when it records, or at once if its machine is not connected."""
        answer: Task = self.post("tasks", body=body)
        return answer

    def stop_task(self, task_id: str) -> Task:
        """Stop a task. Answers when it has ended; recorded rows are kept."""
        answer: Task = self.post("tasks", task_id, "stop")
        return answer

    def get_streams(self) -> KnownStreams:
        """All streams with their columns, how rows are added up, and whether they have flame graphs."""
        answer: KnownStreams = self.get("streams")
        return answer

    def start_group(self, body: GroupWish) -> StartedGroup:
        """Start tasks of several probes on several machines. If one definition is not valid, none is started."""
        answer: StartedGroup = self.post("groups", body=body)
        return answer

    def get_group(self, group_id: str) -> TaskGroup:
        """The tasks of a group."""
        answer: TaskGroup = self.get("groups", group_id)
        return answer

    def stop_group(self, group_id: str) -> TaskGroup:
        """Stop all tasks of a group. Answers when they have ended; recorded rows are kept."""
        answer: TaskGroup = self.post("groups", group_id, "stop")
        return answer

    def get_templates(self) -> Templates:
        """Templates: those that come with SCOPE, and those that people have made."""
        answer: Templates = self.get("templates")
        return answer

    def keep_template(self, body: NewTemplate) -> Template:
        """Keep a template. One that people have made under this name is replaced."""
        answer: Template = self.post("templates", body=body)
        return answer

    def delete_template(self, name: str) -> Deleted:
        """Delete a template that people have made. Tasks that were started with it go on."""
        answer: Deleted = self.post("templates", name, "delete")
        return answer

    def get_annotations(
        self,
        *,
        since: str | None = None,
        until: str | None = None,
        machine: str | None = None,
        label: str | None = None,
        limit: int | None = None,
    ) -> FoundAnnotations:
        """Annotations of people, and of programs on machines, the newest first."""
        answer: FoundAnnotations = self.get(
            "annotations", since=since, until=until, machine=machine, label=label, limit=limit
        )
        return answer

    def add_annotation(self, body: NewAnnotation) -> Annotation:
        """Say something about a moment or a time."""
        answer: Annotation = self.post("annotations", body=body)
        return answer

    def delete_annotation(self, id: str) -> DeletedAnnotation:
        """Delete an annotation."""
        answer: DeletedAnnotation = self.post("annotations", id, "delete")
        return answer

    def get_events(
        self,
        stream: str,
        *,
        where: str | None = None,
        since: str | None = None,
        until: str | None = None,
        machine: str | None = None,
        task: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        order: Literal["asc", "desc", "stored"] | None = None,
    ) -> EventPage:
        """Rows of a stream, with what was lost of it in their time."""
        answer: EventPage = self.get(
            "events",
            stream,
            where=where,
            since=since,
            until=until,
            machine=machine,
            task=task,
            limit=limit,
            cursor=cursor,
            order=order,
        )
        return answer

    def watch_events(
        self,
        stream: str,
        *,
        where: str | None = None,
        since: str | None = None,
        machine: str | None = None,
        task: str | None = None,
        cursor: str | None = None,
    ) -> Iterator[ServerEvent]:
        """Rows of a stream as they are stored, each once. A reconnect with the last id misses and repeats nothing."""
        return self.watch("live", stream, where=where, since=since, machine=machine, task=task, cursor=cursor)

    def get_losses(
        self,
        *,
        since: str | None = None,
        until: str | None = None,
        machine: str | None = None,
        stream: str | None = None,
        task: str | None = None,
        limit: int | None = None,
    ) -> Losses:
        """What was lost or not recorded, and when: of all streams, or of one."""
        answer: Losses = self.get(
            "losses", since=since, until=until, machine=machine, stream=stream, task=task, limit=limit
        )
        return answer

    def get_aggregates(
        self,
        stream: str,
        *,
        since: str | None = None,
        until: str | None = None,
        where: str | None = None,
        machine: str | None = None,
        task: str | None = None,
        every: Literal["1s", "5s", "15s", "1m", "5m", "15m", "1h", "6h", "1d"] | None = None,
        by: str | None = None,
        cells: str | None = None,
        order: str | None = None,
        top: int | None = None,
    ) -> Aggregates:
        """The top groups of a stream with their totals and, with `every`, a point for each step."""
        answer: Aggregates = self.get(
            "aggregates",
            stream,
            since=since,
            until=until,
            where=where,
            machine=machine,
            task=task,
            every=every,
            by=by,
            cells=cells,
            order=order,
            top=top,
        )
        return answer

    def get_heatmap(
        self,
        stream: str,
        *,
        since: str | None = None,
        until: str | None = None,
        where: str | None = None,
        machine: str | None = None,
        task: str | None = None,
        column: str | None = None,
        columns: int | None = None,
    ) -> Heatmap:
        """How many values of each size a column has in each step: from rollups by the minute, or from rows."""
        answer: Heatmap = self.get(
            "heatmap",
            stream,
            since=since,
            until=until,
            where=where,
            machine=machine,
            task=task,
            column=column,
            columns=columns,
        )
        return answer

    def get_flamegraph(
        self,
        file: BinaryIO,
        stream: str,
        *,
        since: str | None = None,
        until: str | None = None,
        where: str | None = None,
        machine: str | None = None,
        task: str | None = None,
        against_since: str | None = None,
        against_until: str | None = None,
        against_where: str | None = None,
        during: str | None = None,
        against_during: str | None = None,
        column: str | None = None,
        by: str | None = None,
        format: Literal["arrow", "folded", "svg", "pprof", "speedscope"] | None = None,
        of: str | None = None,
    ) -> str:
        """A flame graph of a stream's rows that have stacks; with a second window or filter, of the difference."""
        return self.save(
            file,
            "flamegraph",
            stream,
            since=since,
            until=until,
            where=where,
            machine=machine,
            task=task,
            against_since=against_since,
            against_until=against_until,
            against_where=against_where,
            during=during,
            against_during=against_during,
            column=column,
            by=by,
            format=format,
            of=of,
        )

    def export_events(
        self,
        file: BinaryIO,
        stream: str,
        *,
        since: str | None = None,
        until: str | None = None,
        where: str | None = None,
        machine: str | None = None,
        task: str | None = None,
        columns: str | None = None,
        format: Literal["ndjson", "csv", "arrow", "parquet"] | None = None,
    ) -> str:
        """Rows of a stream as a file, in order of time, each once: NDJSON, CSV, an Arrow IPC stream, or Parquet."""
        return self.save(
            file,
            "export",
            stream,
            since=since,
            until=until,
            where=where,
            machine=machine,
            task=task,
            columns=columns,
            format=format,
        )

    def get_difference(
        self,
        stream: str,
        *,
        since: str | None = None,
        until: str | None = None,
        where: str | None = None,
        machine: str | None = None,
        task: str | None = None,
        against_since: str | None = None,
        against_until: str | None = None,
        against_where: str | None = None,
        during: str | None = None,
        against_during: str | None = None,
    ) -> Difference:
        """What differs between rows of a window and filter (inside) and others (outside), the most different first."""
        answer: Difference = self.get(
            "compare",
            stream,
            since=since,
            until=until,
            where=where,
            machine=machine,
            task=task,
            against_since=against_since,
            against_until=against_until,
            against_where=against_where,
            during=during,
            against_during=against_during,
        )
        return answer

    def get_slowest(
        self,
        stream: str,
        *,
        since: str | None = None,
        until: str | None = None,
        where: str | None = None,
        machine: str | None = None,
        task: str | None = None,
        limit: int | None = None,
    ) -> SlowRows:
        """The slowest rows of a stream, each with what differs from most rows."""
        answer: SlowRows = self.get(
            "slowest", stream, since=since, until=until, where=where, machine=machine, task=task, limit=limit
        )
        return answer

    def get_trace(
        self,
        file: BinaryIO,
        *,
        since: str | None = None,
        until: str | None = None,
        streams: str | None = None,
        machine: str | None = None,
        task: str | None = None,
        where: str | None = None,
        format: Literal["perfetto", "chrome"] | None = None,
    ) -> str:
        """The timelines of streams, for https://ui.perfetto.dev: processes and CPUs of each machine, on one clock."""
        return self.save(
            file,
            "trace",
            since=since,
            until=until,
            streams=streams,
            machine=machine,
            task=task,
            where=where,
            format=format,
        )

    def get_why(
        self,
        *,
        since: str | None = None,
        until: str | None = None,
        pid: int | None = None,
        machine: str | None = None,
        start: int | None = None,
        stream: str | None = None,
        where: str | None = None,
    ) -> Why:
        """Where the wall time of a process went: a sentence first, then by thread, call, file and page faults."""
        answer: Why = self.get(
            "why", since=since, until=until, pid=pid, machine=machine, start=start, stream=stream, where=where
        )
        return answer

    def get_why_timeline(
        self,
        *,
        since: str | None = None,
        until: str | None = None,
        pid: int | None = None,
        machine: str | None = None,
        start: int | None = None,
        steps: int | None = None,
    ) -> WhyTimeline:
        """When each thread of a process was on a CPU, waited for a CPU, or was blocked."""
        answer: WhyTimeline = self.get(
            "why", "timeline", since=since, until=until, pid=pid, machine=machine, start=start, steps=steps
        )
        return answer

    def get_processes(
        self,
        *,
        since: str | None = None,
        until: str | None = None,
        where: str | None = None,
        machine: str | None = None,
    ) -> Processes:
        """The processes of a machine that ran, began or ended in a window of time, and their parents."""
        answer: Processes = self.get("processes", since=since, until=until, where=where, machine=machine)
        return answer

    def get_states(
        self,
        stream: str,
        *,
        node: str | None = None,
        hours: int | None = None,
        limit: int | None = None,
        pid: int | None = None,
    ) -> States:
        """Groups of states that have not ended, the largest first; groups of ended processes last."""
        answer: States = self.get("states", stream, node=node, hours=hours, limit=limit, pid=pid)
        return answer

    def get_quarantine(self, *, limit: int | None = None) -> Entries:
        """Records that could not be stored, newest first: their run, the reason, and whether the record was kept."""
        answer: Entries = self.get("quarantine", limit=limit)
        return answer

    def retry_record(self, id: str) -> Stored:
        """Try again to store a record. On success, its events no longer count as lost."""
        answer: Stored = self.post("quarantine", id, "retry")
        return answer

    def drop_record(self, id: str) -> Dropped:
        """Delete a record. Its events stay counted as lost."""
        answer: Dropped = self.post("quarantine", id, "drop")
        return answer

    def get_authority(self) -> AuthorityCertificate:
        """The certificate of the fleet's authority."""
        answer: AuthorityCertificate = self.get("authority")
        return answer

    def get_rotation(self) -> Rotation:
        """Whether the authority is being replaced, and which machines have the next root."""
        answer: Rotation = self.get("authority", "rotation")
        return answer

    def begin_rotation(self) -> Rotation:
        """Make the authority's next root. Connected agents get it within seconds, others when they connect."""
        answer: Rotation = self.post("authority", "rotation", "begin")
        return answer

    def finish_rotation(self) -> Rotation:
        """End the trust in the authority's first root, unless a connected agent lacks the next one."""
        answer: Rotation = self.post("authority", "rotation", "finish")
        return answer

    def make_join_token(self, body: TokenWish) -> JoinToken:
        """Make a token with which machines join."""
        answer: JoinToken = self.post("join-tokens", body=body)
        return answer

    def get_certificates(self) -> Certificates:
        """The certificates that have not expired, newest first."""
        answer: Certificates = self.get("certificates")
        return answer

    def sign_certificate(self, body: Signing) -> Signed:
        """Sign the key of a person, for calls of agents."""
        answer: Signed = self.post("certificates", body=body)
        return answer

    def revoke_certificate(self, name: str) -> Revoked:
        """Revoke a person's certificate with this serial number, or all with this name."""
        answer: Revoked = self.post("certificates", name, "revoke")
        return answer

    def login(self, body: Credentials) -> Tokens:
        """Log in with a password. An unknown email and a wrong password get the same answer."""
        answer: Tokens = self.post("auth", "login", body=body)
        return answer

    def refresh(self, body: Refreshing) -> Tokens:
        """The next tokens of a login. A refresh token that comes again ends the login: it may be stolen."""
        answer: Tokens = self.post("auth", "refresh", body=body)
        return answer

    def logout(self) -> Done:
        """Log out: the login's tokens are refused from now on."""
        answer: Done = self.post("auth", "logout")
        return answer

    def who_may_register(self) -> Registering:
        """Whether an account needs an invitation from an admin."""
        answer: Registering = self.get("auth", "register")
        return answer

    def register(self, body: Registration) -> Registered:
        """Make an account for who was invited, or for anybody if the server allows it."""
        answer: Registered = self.post("auth", "register", body=body)
        return answer

    def change_password(self, body: NewPassword) -> Done:
        """Change the caller's password. All other logins of the account end."""
        answer: Done = self.post("auth", "password", body=body)
        return answer

    def who_am_i(self) -> Me:
        """Who the caller is, and what they may do."""
        answer: Me = self.get("auth", "me")
        return answer

    def get_users(self) -> Users:
        """All accounts."""
        answer: Users = self.get("users")
        return answer

    def add_user(self, body: NewUser) -> Added:
        """Make an account."""
        answer: Added = self.post("users", body=body)
        return answer

    def invite_user(self, body: Inviting) -> Invitation:
        """Invite somebody to register."""
        answer: Invitation = self.post("invitations", body=body)
        return answer

    def change_user(self, email: str, body: UserChange) -> Changed:
        """Change an account. Disabled, or with a new password, all its logins end."""
        answer: Changed = self.post("users", email, body=body)
        return answer

    def get_tokens(self) -> ApiTokens:
        """The caller's tokens; an admin sees everybody's."""
        answer: ApiTokens = self.get("tokens")
        return answer

    def make_token(self, body: NewToken) -> Token:
        """Make a token for scripts, which may do no more than the caller."""
        answer: Token = self.post("tokens", body=body)
        return answer

    def revoke_token(self, id: str) -> Gone:
        """Revoke a token."""
        answer: Gone = self.post("tokens", id, "revoke")
        return answer

    def get_audit(self, *, before: int | None = None, limit: int | None = None) -> AuditEntries:
        """What was done: each start and stop, login, token, change of accounts, machines, and of what is kept."""
        answer: AuditEntries = self.get("audit", before=before, limit=limit)
        return answer

    def verify_audit(self) -> AuditVerdict:
        """Check the whole log: a removed or changed entry shows."""
        answer: AuditVerdict = self.get("audit", "verdict")
        return answer

    def get_openapi(self) -> Document:
        """This description, in OpenAPI 3.1."""
        answer: Document = self.get("openapi.json")
        return answer
