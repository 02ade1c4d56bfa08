-- The database has seven schemas. `scope` has views and functions for people. `fresh` and `packed` have the rows in
-- blocks, one partitioned table per stream, made from the catalogue (`store/schema/migrate.py`). The catalogue also
-- makes `rollups` (totals of rows), `latest` (the newest row of each state) and `ranked` (totals of states). `store`
-- has the texts and processes that rows refer to, tasks with their event counts, and the catalogue of batches; it
-- already exists and has the versions of this schema. The meanings of tables, views and columns are in
-- 0002_meanings.sql.
CREATE SCHEMA scope;
CREATE SCHEMA fresh;
CREATE SCHEMA packed;
CREATE SCHEMA rollups;
CREATE SCHEMA latest;
CREATE SCHEMA ranked;
COMMENT ON SCHEMA scope IS 'SCOPE''s views and functions for queries: streams, machines, tasks, runs and losses.';
COMMENT ON SCHEMA fresh IS 'Rows in blocks as written; use the views in schema scope instead.';
COMMENT ON SCHEMA packed IS 'Rows in large, compressed blocks; use the views in schema scope instead.';
COMMENT ON SCHEMA rollups IS 'Totals of rows per minute, as stored; use scope.STREAM_minutes instead.';
COMMENT ON SCHEMA latest IS 'The newest row of each state, such as allocated memory; use scope.STREAM_now() instead.';
COMMENT ON SCHEMA ranked IS 'Groups of states with their sums, to find the largest groups fast.';
COMMENT ON SCHEMA store IS 'Internal tables: texts and processes that rows refer to, tasks, event counts, the catalogue of batches.';

CREATE TABLE store.machines (
    id             integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    machine_id     text NOT NULL UNIQUE,
    installation   text NOT NULL,
    hostname       text NOT NULL,
    kernel         text NOT NULL,
    architecture   text NOT NULL,
    cpus           integer NOT NULL,
    memory_bytes   bigint NOT NULL,
    agent_version  text NOT NULL,
    booted         timestamptz,
    clock_ahead_ns bigint NOT NULL DEFAULT 0,
    first_seen     timestamptz NOT NULL DEFAULT now(),
    last_seen      timestamptz NOT NULL DEFAULT now()
);

-- ---- entries that rows refer to. Ids are drawn only for new entries; a text is found by its digest, so it may be
-- long.

CREATE SEQUENCE store.text_ids AS bigint;              -- names and stacks share an array in a block

CREATE TABLE store.names (
    id     bigint PRIMARY KEY DEFAULT nextval('store.text_ids'),
    digest bytea NOT NULL UNIQUE,
    text   text NOT NULL
);

CREATE TABLE store.frames (
    id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    digest bytea NOT NULL UNIQUE,
    text   text NOT NULL
);

CREATE TABLE store.stacks (
    id     bigint PRIMARY KEY DEFAULT nextval('store.text_ids'),
    digest bytea NOT NULL UNIQUE,
    frames bigint[] NOT NULL
);

CREATE FUNCTION store.stack_text(wanted bigint) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT string_agg(f.text, ';' ORDER BY u.place)
    FROM store.stacks s, unnest(s.frames) WITH ORDINALITY u (frame, place) JOIN store.frames f ON f.id = u.frame
    WHERE s.id = wanted
$$;

-- pid and start identify a process, since pids are reused. Pid 0 is for rows without a process.
CREATE TABLE store.processes (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    machine      integer NOT NULL,
    pid          bigint NOT NULL,
    start_ns     bigint NOT NULL,
    described_ns bigint NOT NULL DEFAULT 0,
    parent_pid   bigint,
    exe          text,
    cmdline      text[],
    cgroup       text,
    container    text,
    UNIQUE (pid, start_ns, machine)
);

-- ---- tasks, their runs and their event counts

CREATE TABLE store.tasks (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task_id    uuid NOT NULL UNIQUE,
    machine    integer NOT NULL REFERENCES store.machines,
    origin     text NOT NULL CHECK (origin IN ('server', 'agent')),
    probe      text NOT NULL,
    definition jsonb NOT NULL,
    wanted     boolean NOT NULL,
    deadline   timestamptz,
    reason     text,
    next_try   timestamptz,
    created    timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX tasks_wanted ON store.tasks (machine) WHERE wanted;

CREATE TABLE store.runs (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id       uuid NOT NULL UNIQUE,
    task         bigint NOT NULL REFERENCES store.tasks,
    installation text NOT NULL,
    state        text NOT NULL
                 CHECK (state IN ('starting', 'running', 'stopping', 'stopped', 'failed')),
    "end"        text CHECK ("end" IN ('request', 'lease', 'failure', 'shutdown', 'killed')),
    error        text,
    attach_point text,
    started      timestamptz,
    ended        timestamptz,
    sent_bytes   bigint NOT NULL DEFAULT 0,
    cost         jsonb,
    notes        text[] NOT NULL DEFAULT '{}'
);
CREATE INDEX runs_task ON store.runs (task);
CREATE INDEX runs_open ON store.runs (installation) WHERE ended IS NULL;

-- The event counts of a run's stream. `settled` has the sequence numbers whose rows are stored or counted as lost. It
-- is updated in the same transaction, so that a repeated delivery is not stored again. Counts from the agent never
-- decrease.
CREATE TABLE store.accounts (
    run           bigint NOT NULL REFERENCES store.runs,
    stream        text NOT NULL,
    emitted       bigint NOT NULL DEFAULT 0,
    stored        bigint NOT NULL DEFAULT 0,
    lost          bigint NOT NULL DEFAULT 0,
    incomplete    bigint NOT NULL DEFAULT 0,
    told          jsonb NOT NULL DEFAULT '{}',
    told_time     timestamptz,
    settled       int8multirange NOT NULL DEFAULT '{}',
    last_sequence bigint,
    PRIMARY KEY (run, stream)
);

CREATE TABLE store.losses (
    run        bigint NOT NULL REFERENCES store.runs,
    stream     text NOT NULL,
    place      text NOT NULL,
    reason     text NOT NULL,
    minute     timestamptz NOT NULL,
    first_time timestamptz NOT NULL,
    last_time  timestamptz NOT NULL,
    count      bigint NOT NULL,
    PRIMARY KEY (run, stream, place, reason, minute)
);

CREATE TABLE store.quarantine (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run            bigint NOT NULL REFERENCES store.runs,
    stream         text,
    sequence       bigint,
    events         bigint NOT NULL,
    minute         timestamptz,
    code           text NOT NULL,
    reason         text NOT NULL,
    received       timestamptz NOT NULL DEFAULT now(),
    boot_to_utc_ns bigint NOT NULL,
    bytes          bigint NOT NULL,
    record         bytea
);

-- ---- the catalogue of batches: run, stream and time range of each. One partition per day, dropped with the rows.

CREATE SEQUENCE store.batch_ids AS bigint;

CREATE TABLE store.batches (
    id             bigint NOT NULL,
    run            bigint NOT NULL,
    sequence       bigint NOT NULL,
    first_time     timestamptz NOT NULL,
    last_time      timestamptz NOT NULL,
    boot_to_utc_ns bigint NOT NULL,
    event_count    bigint NOT NULL,
    machine        integer NOT NULL,
    stream         text NOT NULL
) PARTITION BY RANGE (last_time);
CREATE INDEX ON store.batches (id);

-- ---- the state of retention

CREATE TABLE store.dropped (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    day        date NOT NULL,
    stream     text,
    rows       bigint NOT NULL,
    bytes      bigint NOT NULL,
    reason     text NOT NULL CHECK (reason IN ('age', 'limit', 'floor')),
    dropped_at timestamptz
);

-- A writer's cached keys are valid as long as `number` does not change. A sweep deletes entries without references.
-- While a sweep runs, `number` is odd and `doomed` lists the entries to delete; a writer that needs such an entry first
-- removes it from the list.
CREATE TABLE store.sweep (
    one    boolean PRIMARY KEY DEFAULT true CHECK (one),
    number bigint NOT NULL DEFAULT 0,
    due    integer NOT NULL DEFAULT 0
);
INSERT INTO store.sweep DEFAULT VALUES;

CREATE TABLE store.doomed (
    kind text NOT NULL,
    id   bigint NOT NULL,
    PRIMARY KEY (kind, id)
);

-- Called first in a transaction that uses keys; returns the number of the sweep for which keys are valid. A sweep that
-- starts later waits for the end of the transaction. The number is read after taking the lock, in its own snapshot.
CREATE FUNCTION store.enter() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT pg_advisory_xact_lock_shared(377247);
    SELECT number FROM store.sweep
$$;

CREATE TABLE store.streams (
    stream      text NOT NULL,
    version     integer NOT NULL,
    probe       text NOT NULL,
    fingerprint text NOT NULL,
    columns     jsonb NOT NULL,
    shown       text NOT NULL DEFAULT '',
    created     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (stream, version)
);

CREATE TABLE store.pulse (
    one  boolean PRIMARY KEY DEFAULT true CHECK (one),
    beat timestamptz NOT NULL
);
INSERT INTO store.pulse (beat) VALUES (now());

-- ---- for people

-- The aggregate's state: the counts of 64 buckets, then the share in millionths.
CREATE FUNCTION store.percentile_step(state bigint[], share double precision, at_least bigint, count bigint)
RETURNS bigint[] LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    bucket integer := 65 - position(B'1' IN greatest(at_least, 1)::bit(64));
BEGIN
    state[65] := round(share * 1000000);
    state[bucket] := state[bucket] + count;
    RETURN state;
END $$;

CREATE FUNCTION store.percentile_end(state bigint[])
RETURNS double precision LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    wanted double precision := (SELECT sum(c) FROM unnest(state[:64]) c)::double precision * state[65] / 1000000;
    below double precision := 0;
BEGIN
    FOR bucket IN 1..64 LOOP
        IF state[bucket] > 0 AND below + state[bucket] >= wanted THEN
            RETURN power(2, bucket - 1) * (1 + (wanted - below) / state[bucket]);
        END IF;
        below := below + state[bucket];
    END LOOP;
    RETURN NULL;
END $$;

CREATE AGGREGATE scope.percentile(share double precision, at_least bigint, count bigint) (
    SFUNC = store.percentile_step, STYPE = bigint[], FINALFUNC = store.percentile_end,
    INITCOND = '{0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,
                 0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}'
);
COMMENT ON AGGREGATE scope.percentile(double precision, bigint, bigint) IS
    'A percentile, such as 0.99, of what scope.STREAM_histogram returns: an estimate within its power of two.';

CREATE VIEW scope.machines AS
SELECT machine_id, hostname, kernel, architecture, cpus, memory_bytes, agent_version, booted, clock_ahead_ns,
       first_seen, last_seen
FROM store.machines;

CREATE VIEW scope.tasks AS
SELECT t.task_id, m.machine_id, m.hostname, t.origin, t.probe, t.definition, t.wanted, t.deadline, t.reason, t.created
FROM store.tasks t JOIN store.machines m ON m.id = t.machine;

CREATE VIEW scope.runs AS
SELECT r.run_id, t.task_id, m.machine_id, m.hostname, t.probe, r.state, r."end", r.error, r.attach_point, r.started,
       r.ended, r.sent_bytes, r.cost, r.notes
FROM store.runs r JOIN store.tasks t ON t.id = r.task JOIN store.machines m ON m.id = t.machine;

CREATE VIEW scope.processes AS
SELECT m.machine_id, m.hostname, p.pid, p.start_ns, p.parent_pid, p.exe, p.cmdline, p.cgroup, p.container
FROM store.processes p JOIN store.machines m ON m.id = p.machine;

CREATE VIEW scope.books AS
SELECT t.task_id, r.run_id, a.stream, a.emitted, a.stored, a.lost, a.emitted - a.stored - a.lost AS under_way,
       r.ended IS NOT NULL AND a.last_sequence IS NOT NULL
           AND a.settled @> int8multirange(int8range(1, a.last_sequence + 1)) AS closed,
       a.incomplete
FROM store.accounts a
JOIN store.runs r ON r.id = a.run
JOIN store.tasks t ON t.id = r.task;

CREATE VIEW scope.losses AS
SELECT t.task_id, r.run_id, m.machine_id, m.hostname, o.stream, o.place, o.reason, o.first_time, o.last_time, o.count
FROM store.losses o
JOIN store.runs r ON r.id = o.run
JOIN store.tasks t ON t.id = r.task
JOIN store.machines m ON m.id = t.machine;

CREATE VIEW scope.dropped AS
SELECT stream, day, rows, bytes, dropped_at, reason FROM store.dropped WHERE dropped_at IS NOT NULL;
