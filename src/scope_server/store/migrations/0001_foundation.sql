-- Narrow rows of events live in `events`, one partitioned table a stream, made from the catalogue. What rows refer to,
-- the books, and the views that people read live in `scope`.
CREATE SCHEMA events;

CREATE TABLE scope.machines (
    id            integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    machine_id    text NOT NULL UNIQUE,
    hostname      text NOT NULL,
    kernel        text NOT NULL,
    architecture  text NOT NULL,
    cpus          integer NOT NULL,
    memory_bytes  bigint NOT NULL,
    agent_version text NOT NULL,
    booted        timestamptz,
    first_seen    timestamptz NOT NULL DEFAULT now(),
    last_seen     timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE scope.names (
    id   integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    text text NOT NULL UNIQUE
);

-- A process is told apart by its start, since pids are used again.
CREATE TABLE scope.processes (
    id       integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    machine  integer NOT NULL,
    pid      bigint NOT NULL,
    start_ns bigint NOT NULL,
    ppid     bigint,
    exe      text,
    cmdline  text,
    UNIQUE (pid, start_ns, machine)
);

CREATE TABLE scope.tasks (
    id           integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task_id      uuid NOT NULL UNIQUE,
    machine      integer NOT NULL REFERENCES scope.machines,
    probe        text NOT NULL,
    definition   jsonb NOT NULL,            -- target, options, duration in seconds
    desired      text NOT NULL CHECK (desired IN ('running', 'stopped')),
    state        text NOT NULL DEFAULT 'pending'
                 CHECK (state IN ('pending', 'starting', 'running', 'stopping', 'stopped', 'failed')),
    error        text,
    attach_point text,
    sent_bytes   bigint NOT NULL DEFAULT 0,
    cost         jsonb,
    replaces     uuid,                      -- the run that this one continues after a restart of the agent
    created      timestamptz NOT NULL DEFAULT now(),
    started      timestamptz,
    ended        timestamptz
);
CREATE INDEX tasks_desired ON scope.tasks (machine) WHERE desired = 'running';

-- One row for each batch that was delivered, however often; its rows are committed with it.
CREATE TABLE scope.ledger (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    machine        integer NOT NULL,
    task           integer NOT NULL,
    sequence       bigint NOT NULL,
    stream         text NOT NULL,
    event_count    bigint NOT NULL,
    first_time     timestamptz,
    last_time      timestamptz,
    boot_to_utc_ns bigint NOT NULL,         -- added to a row's ktime_ns it gives nanoseconds since 1970 UTC
    status         text NOT NULL CHECK (status IN ('stored', 'rejected')),
    code           text,
    reason         text,
    received_at    timestamptz NOT NULL DEFAULT now(),
    UNIQUE (task, sequence, machine)
);
CREATE INDEX ledger_first_time ON scope.ledger (stream, first_time) WHERE event_count > 0 AND status = 'stored';
CREATE INDEX ledger_last_time ON scope.ledger (stream, last_time) WHERE event_count > 0 AND status = 'stored';

-- Cumulative counts as the agent sends them; a late or repeated account never lowers one.
CREATE TABLE scope.accounts (
    task    integer NOT NULL,
    stream  text NOT NULL,
    emitted bigint NOT NULL,
    PRIMARY KEY (task, stream)
);

-- Place 'ingest' is the server's own: what it rejected, added with the ledger's row.
CREATE TABLE scope.losses (
    task   integer NOT NULL,
    stream text NOT NULL,
    place  text NOT NULL,
    reason text NOT NULL,
    count  bigint NOT NULL,
    PRIMARY KEY (task, stream, place, reason)
);

CREATE TABLE scope.streams (
    stream      text NOT NULL,
    version     integer NOT NULL,
    probe       text NOT NULL,
    fingerprint text NOT NULL,
    columns     jsonb NOT NULL,             -- [{name, type, sql, kind}], in the order of the view
    created     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (stream, version)
);

-- balance is 0 once all that was emitted has arrived; above 0, so much is still under way.
CREATE VIEW scope.books AS
SELECT t.task_id,
       k.stream,
       coalesce(a.emitted, 0) AS emitted,
       coalesce(s.stored, 0) AS stored,
       coalesce(l.lost, 0) AS lost,
       coalesce(a.emitted, 0) - coalesce(s.stored, 0) - coalesce(l.lost, 0) AS balance
FROM (SELECT task, stream FROM scope.accounts
      UNION SELECT task, stream FROM scope.losses
      UNION SELECT task, stream FROM scope.ledger) k
JOIN scope.tasks t ON t.id = k.task
LEFT JOIN scope.accounts a ON a.task = k.task AND a.stream = k.stream
LEFT JOIN LATERAL (SELECT sum(g.event_count)::bigint AS stored FROM scope.ledger g
                   WHERE g.task = k.task AND g.stream = k.stream AND g.status = 'stored') s ON true
LEFT JOIN LATERAL (SELECT sum(o.count)::bigint AS lost FROM scope.losses o
                   WHERE o.task = k.task AND o.stream = k.stream) l ON true;
