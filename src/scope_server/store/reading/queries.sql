-- Queries by name, read by `queries.py`. Queries of events are composed in `reader.py`.

-- ---- machines

-- name: ping
SELECT 1;

-- An id is drawn only for a new machine.
-- name: register_machine
WITH known AS (
    UPDATE store.machines
    SET installation = %(installation)s, hostname = %(hostname)s, kernel = %(kernel)s, architecture = %(architecture)s,
        cpus = %(cpus)s, memory_bytes = %(memory_bytes)s, agent_version = %(agent_version)s, booted = %(booted)s,
        clock_ahead_ns = %(clock_ahead_ns)s, last_seen = now(), spool = NULL,
        probes_current = false
    WHERE machine_id = %(machine_id)s
    RETURNING id
), added AS (
    INSERT INTO store.machines (machine_id, installation, hostname, kernel, architecture, cpus, memory_bytes,
                                agent_version, booted, clock_ahead_ns)
    SELECT %(machine_id)s, %(installation)s, %(hostname)s, %(kernel)s, %(architecture)s, %(cpus)s, %(memory_bytes)s,
           %(agent_version)s, %(booted)s, %(clock_ahead_ns)s
    WHERE NOT EXISTS (SELECT FROM known)
    ON CONFLICT (machine_id) DO UPDATE SET last_seen = now()
    RETURNING id
)
SELECT id FROM known UNION ALL SELECT id FROM added;

-- A row that others lock is left for the next time.
-- name: seen
WITH seen AS (
    SELECT m.id, s.at, s.clock_ahead_ns, s.spool
    FROM store.machines m
    JOIN unnest(%(machine)s::integer[], %(at)s::timestamptz[], %(clock_ahead_ns)s::bigint[], %(spool)s::text[])
        s (id, at, clock_ahead_ns, spool) ON s.id = m.id
    FOR NO KEY UPDATE OF m SKIP LOCKED
)
UPDATE store.machines m
SET last_seen = greatest(m.last_seen, seen.at), clock_ahead_ns = seen.clock_ahead_ns, spool = seen.spool::jsonb
FROM seen
WHERE m.id = seen.id;

-- name: told_probes
UPDATE store.machines m SET probes = t.probes, probes_current = true
FROM unnest(%(machine)s::integer[], %(probes)s::bytea[]) t (id, probes)
WHERE m.id = t.id;

-- name: probes_of
SELECT probes, probes_current, clock_ahead_ns FROM store.machines WHERE machine_id = %(machine_id)s;

-- name: machines
SELECT machine_id, installation, hostname, kernel, architecture, cpus, memory_bytes, agent_version, booted,
       clock_ahead_ns, first_seen, last_seen, coalesce(l.labels, '{}') AS labels, m.membership, m.joined, m.expires, spool
FROM store.machines
LEFT JOIN (SELECT machine_id, jsonb_object_agg(name, value) AS labels FROM store.labels GROUP BY machine_id) AS l
    USING (machine_id)
LEFT JOIN (
    SELECT DISTINCT ON (machine_id) machine_id, joined, expires,
           coalesce(ending, CASE WHEN confirmed THEN 'joined' ELSE 'unconfirmed' END) AS membership
    FROM store.members
    ORDER BY machine_id, ended DESC NULLS FIRST, joined DESC
) AS m USING (machine_id)
ORDER BY hostname, machine_id;

-- name: find_machines
SELECT id, machine_id, hostname FROM store.machines WHERE machine_id = %(node)s OR hostname = %(node)s;

-- Members with all of these labels.
-- name: labelled_machines
SELECT id, machine_id, hostname
FROM store.machines m
WHERE (SELECT count(*) FROM store.labels l JOIN unnest(%(names)s::text[], %(values)s::text[]) AS w (name, value)
       USING (name, value) WHERE l.machine_id = m.machine_id) = cardinality(%(names)s::text[])
  AND EXISTS (SELECT FROM store.members WHERE machine_id = m.machine_id AND ended IS NULL)
ORDER BY hostname, machine_id;

-- name: store_metrics
SELECT (SELECT count(*) FROM store.machines m WHERE m.last_seen < now() - interval '5 min' AND EXISTS (
            SELECT FROM store.members e WHERE e.machine_id = m.machine_id AND e.ended IS NULL)) AS machines_away,
       (SELECT count(*) FROM store.quarantine) AS quarantined_records,
       (SELECT coalesce(sum(bytes), 0) FROM store.quarantine WHERE record IS NOT NULL) AS quarantined_bytes,
       (SELECT count(*) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE c.relkind = 'r' AND c.relnamespace::regnamespace::text IN ('fresh', 'packed', 'store')) AS partitions;

-- ---- wanted tasks

-- Machines whose wanted tasks would be larger than their message may be.
-- name: full_machines
SELECT m.hostname
FROM store.machines m
JOIN (SELECT machine, sum(bytes) AS bytes
      FROM unnest(%(machines)s::integer[], %(bytes)s::bigint[]) AS w (machine, bytes) GROUP BY machine) AS new
    ON new.machine = m.id
WHERE new.bytes + (SELECT coalesce(sum(octet_length(definition::text)), 0) FROM store.tasks t
                   WHERE t.machine = m.id AND origin = 'server' AND wanted) > %(most)s;

-- name: want_tasks
INSERT INTO store.tasks (task_id, machine, origin, probe, definition, wanted, "group")
SELECT task_id, machine, 'server', probe, definition::jsonb, true, %(group)s::uuid
FROM unnest(%(task_ids)s::uuid[], %(machines)s::integer[], %(probes)s::text[], %(definitions)s::text[])
    AS w (task_id, machine, probe, definition);

-- name: templates
SELECT name, meaning, parts, made_by, made FROM store.templates ORDER BY name;

-- name: keep_template
INSERT INTO store.templates (name, meaning, parts, made_by)
SELECT %(name)s, %(meaning)s, %(parts)s::jsonb, %(made_by)s
WHERE (SELECT count(*) FROM store.templates WHERE name <> %(name)s) < %(most)s
ON CONFLICT (name) DO UPDATE SET (meaning, parts, made_by, made) = (EXCLUDED.meaning, EXCLUDED.parts, EXCLUDED.made_by, now());

-- name: drop_template
DELETE FROM store.templates WHERE name = %(name)s;

-- name: unwant_group
UPDATE store.tasks
SET wanted = false, next_try = NULL
WHERE id IN (SELECT id FROM store.tasks WHERE "group" = %(group)s AND wanted ORDER BY id FOR NO KEY UPDATE);

-- name: unwant_task
UPDATE store.tasks SET wanted = false, next_try = NULL WHERE task_id = %(task_id)s AND origin = 'server';

-- The agent ends a task at its deadline; a little later, the task is over even if the agent is gone. A local task is
-- over when its agent no longer knows it. What others lock is left for the next time.
-- name: end_overdue
UPDATE store.tasks
SET wanted = false, next_try = NULL
WHERE id IN (
    SELECT id FROM store.tasks
    WHERE wanted
      AND (origin = 'server' AND deadline < now() - interval '5 s'
           OR origin = 'agent' AND machine = ANY(%(machines)s::integer[]) AND NOT task_id = ANY(%(own)s::uuid[]))
    FOR NO KEY UPDATE SKIP LOCKED
);

-- The machines whose wanted tasks changed after the snapshot `seen`. After a restore, transactions may have lower
-- numbers than before; then every machine's may have changed.
-- name: changed_wishes
SELECT s.now::text AS now, pg_snapshot_xmax(s.now) < pg_snapshot_xmax(s.seen) AS went_back,
       ARRAY(SELECT DISTINCT machine FROM store.tasks
             WHERE changed >= pg_snapshot_xmin(s.seen) AND NOT pg_visible_in_snapshot(changed, s.seen)
               AND pg_visible_in_snapshot(changed, s.now)) AS machines
FROM (SELECT pg_current_snapshot() AS now, coalesce(%(seen)s::pg_snapshot, pg_current_snapshot()) AS seen) s;

-- name: wanted_tasks
SELECT machine, task_id::text, definition, deadline FROM store.tasks
WHERE machine = ANY(%(machines)s::integer[]) AND origin = 'server' AND wanted
  AND (deadline IS NULL OR deadline >= now() - interval '5 s')
ORDER BY id;

-- `open`: whether its agent records it, or may do so since it does not know that it is no longer wanted.
-- name: task_progress
SELECT t.origin, t.wanted, t.reason, m.machine_id, m.hostname, r.state,
       r.id IS NOT NULL AND r.ended IS NULL
           OR NOT t.wanted AND t.told IS NOT NULL AND (t.deadline IS NULL OR now() < t.deadline + interval '5 s') AS open
FROM store.tasks t
JOIN store.machines m ON m.id = t.machine
LEFT JOIN LATERAL (SELECT id, state, ended FROM store.runs WHERE task = t.id ORDER BY run_id DESC LIMIT 1) r ON true
WHERE t.task_id = %(task_id)s;

-- ---- reports of agents

-- A record may have created the task without its definition. An agent that has ended a task for good does not start it
-- again.
-- name: report_task
UPDATE store.tasks
SET wanted = (wanted OR CASE definition WHEN '{}' THEN %(origin)s ELSE origin END = 'agent') AND NOT %(over)s,
    deadline = coalesce(deadline, %(deadline)s), reason = %(reason)s, next_try = %(next_try)s,
    origin = CASE definition WHEN '{}' THEN %(origin)s ELSE origin END,
    probe = CASE definition WHEN '{}' THEN %(probe)s ELSE probe END,
    definition = CASE definition WHEN '{}' THEN %(definition)s::jsonb ELSE definition END,
    started_by = coalesce(started_by, %(started_by)s),
    told = CASE WHEN %(over)s THEN NULL ELSE told END
WHERE task_id = %(task_id)s AND machine = %(machine)s;

-- name: create_reported_task
INSERT INTO store.tasks (task_id, machine, origin, probe, definition, wanted, started_by)
VALUES (%(task_id)s, %(machine)s, %(origin)s, %(probe)s, %(definition)s::jsonb, %(origin)s = 'agent' AND NOT %(over)s,
        %(started_by)s)
ON CONFLICT (task_id) DO NOTHING;

-- An ended run stays ended: its last record may have arrived before a report that it runs.
-- name: report_run
UPDATE store.runs r
SET state = CASE WHEN r.ended IS NULL THEN %(state)s ELSE r.state END, "end" = coalesce(r."end", %(end)s),
    error = coalesce(%(error)s, r.error), attach_point = coalesce(%(attach_point)s, r.attach_point),
    started = coalesce(r.started, %(started)s), ended = coalesce(r.ended, %(ended)s),
    stopped_by = coalesce(r.stopped_by, %(stopped_by)s),
    sent_bytes = greatest(r.sent_bytes, %(sent_bytes)s), cost = %(cost)s::jsonb, notes = %(notes)s::text[]
FROM store.tasks t
WHERE r.run_id = %(run_id)s AND t.id = r.task AND t.machine = %(machine)s;

-- name: create_reported_run
INSERT INTO store.runs (run_id, task, installation, state)
SELECT %(run_id)s, id, %(installation)s, %(state)s
FROM store.tasks
WHERE task_id = %(task_id)s AND machine = %(machine)s
ON CONFLICT (run_id) DO NOTHING;

-- A closed account is final: a report may be written after the run's end.
-- name: report_emitted
INSERT INTO store.accounts AS a (run, stream, emitted)
SELECT r.id, %(stream)s, %(emitted)s
FROM store.runs r JOIN store.tasks t ON t.id = r.task
WHERE r.run_id = %(run_id)s AND t.machine = %(machine)s AND %(emitted)s > 0
ON CONFLICT (run, stream) DO UPDATE SET emitted = excluded.emitted
WHERE a.emitted < excluded.emitted AND a.last_sequence IS NULL;

-- ---- runs that no agent knows any more

-- name: unfinished_runs
SELECT t.machine, r.id, r.run_id
FROM store.runs r JOIN store.tasks t ON t.id = r.task
WHERE t.machine = ANY(%(machines)s::integer[])
  AND (r.ended IS NULL OR EXISTS (
           SELECT FROM store.accounts a
           WHERE a.run = r.id
             AND (a.last_sequence IS NULL OR NOT a.settled @> int8multirange(int8range(1, a.last_sequence + 1)))))
ORDER BY r.id;

-- Ends a run, counts its events under way as lost, and settles all sequence numbers up to the last known one.
-- name: close_run
WITH run AS (
    SELECT id, least(started, ended, now()) AS since, coalesce(ended, now()) AS until
    FROM store.runs
    WHERE id = %(run)s
    FOR UPDATE
), open AS (
    SELECT a.run, a.stream, a.emitted - a.stored - a.lost - a.left_out AS under_way,
           greatest(a.last_sequence, upper(a.settled) - 1, 0) AS last
    FROM store.accounts a JOIN run ON run.id = a.run
    WHERE a.last_sequence IS NULL OR NOT a.settled @> int8multirange(int8range(1, a.last_sequence + 1))
    FOR UPDATE OF a
), closed AS (
    UPDATE store.accounts a
    SET last_sequence = o.last, settled = int8multirange(int8range(1, o.last + 1)),
        lost = a.lost + greatest(o.under_way, 0)
    FROM open o
    WHERE a.run = o.run AND a.stream = o.stream
), booked AS (
    INSERT INTO store.losses AS l (run, stream, place, reason, minute, first_time, last_time, count)
    SELECT o.run, o.stream, 'agent', 'forgotten', date_trunc('minute', run.until), run.since, run.until, o.under_way
    FROM open o JOIN run ON run.id = o.run
    WHERE o.under_way > 0
    ON CONFLICT (run, stream, place, reason, minute) DO UPDATE
    SET count = l.count + excluded.count, first_time = least(l.first_time, excluded.first_time),
        last_time = greatest(l.last_time, excluded.last_time)
)
UPDATE store.runs r
SET state = CASE WHEN r.ended IS NULL THEN 'failed' ELSE r.state END,
    "end" = CASE WHEN r.ended IS NULL THEN 'killed' ELSE r."end" END,
    error = CASE WHEN r.ended IS NULL THEN 'its agent ended without a word, and left nothing of it' ELSE r.error END,
    ended = coalesce(r.ended, now())
FROM run
WHERE r.id = run.id;

-- ---- a database that was restored from an older copy

-- Changes with the database; `batches` increases with every stored batch. The timeline is that of what is written now:
-- the control file has the one of the last checkpoint, which comes minutes after a promotion.
-- name: history
SELECT jsonb_build_array((SELECT system_identifier::text FROM pg_control_system()),
                         left(pg_walfile_name(pg_current_wal_lsn()), 8),
                         (SELECT oid::text FROM pg_database WHERE datname = current_database()),
                         'store.accounts'::regclass::oid::text)::text AS identity,
       (SELECT last_value FROM store.batch_ids) AS batches;

-- name: wanted_numbers
SELECT id AS machine, wanted_number FROM store.machines WHERE id = ANY(%(machines)s::integer[]);

-- Gives machines' next messages their numbers, and returns the tasks in them; a machine without tasks has one row of
-- nulls, and one that was told more than the database knows has none. `leaving`: whether its agent was told of tasks
-- that are not in the message. Rows are locked in the order of their keys, so that nothing deadlocks.
-- name: tell_wanted
WITH asked AS (
    SELECT m.id, w.number
    FROM store.machines m
    JOIN unnest(%(machine)s::integer[], %(before)s::bigint[], %(number)s::bigint[]) w (id, before, number)
        ON w.id = m.id
    WHERE coalesce(m.wanted_number, 0) >= coalesce(w.before, 0)
    ORDER BY m.id
    FOR NO KEY UPDATE OF m
), numbered AS (
    UPDATE store.machines m SET wanted_number = asked.number FROM asked WHERE m.id = asked.id
    RETURNING m.id, asked.number
), listed AS (
    SELECT t.id, n.number
    FROM store.tasks t JOIN numbered n ON n.id = t.machine
    WHERE t.origin = 'server' AND t.wanted AND (t.deadline IS NULL OR t.deadline >= now() - interval '5 s')
    ORDER BY t.id
    FOR NO KEY UPDATE OF t
), told AS (
    UPDATE store.tasks t SET told = listed.number FROM listed WHERE t.id = listed.id
    RETURNING t.id, t.machine, t.task_id::text, t.definition, t.deadline
)
SELECT n.id AS machine, t.task_id, t.definition, t.deadline,
       EXISTS (SELECT FROM store.tasks o
               WHERE o.machine = n.id AND o.told IS NOT NULL AND NOT o.id IN (SELECT id FROM listed)) AS leaving
FROM numbered n LEFT JOIN told t ON t.machine = n.id
ORDER BY t.id;

-- The machine's agent has taken the message with this number.
-- name: take_wanted
UPDATE store.tasks
SET told = NULL
WHERE id IN (SELECT id FROM store.tasks WHERE machine = %(machine)s AND told < %(number)s
             ORDER BY id FOR NO KEY UPDATE);

-- A task that was created before the agent's last message of wanted tasks, and is not among the agent's tasks, was
-- stopped before this message.
-- name: end_stopped
UPDATE store.tasks
SET wanted = false, next_try = NULL, reason = %(reason)s
WHERE machine = %(machine)s AND origin = 'server' AND wanted
  AND (task_id = ANY(%(stopped)s::uuid[]) OR created < %(sent)s::timestamptz AND NOT task_id = ANY(%(known)s::uuid[]))
RETURNING task_id::text;

-- What was acknowledged, and is not settled.
-- name: lacking
SELECT r.id AS run, w.stream, w.sequences, w.events, w.until
FROM unnest(%(run_id)s::uuid[], %(stream)s::text[], %(sequences)s::text[], %(events)s::bigint[],
            %(until)s::timestamptz[]) w (run_id, stream, sequences, events, until)
JOIN store.runs r ON r.run_id = w.run_id
JOIN store.tasks t ON t.id = r.task AND t.machine = %(machine)s
LEFT JOIN store.accounts a ON a.run = r.id AND a.stream = w.stream
WHERE NOT coalesce(a.settled, '{}') @> w.sequences::int8multirange
ORDER BY run, stream;

-- name: make_lacking_accounts
INSERT INTO store.accounts (run, stream)
SELECT run, stream FROM unnest(%(run)s::bigint[], %(stream)s::text[]) w (run, stream) ORDER BY 1, 2
ON CONFLICT DO NOTHING;

-- name: lock_lacking_accounts
SELECT FROM store.accounts a JOIN unnest(%(run)s::bigint[], %(stream)s::text[]) w (run, stream)
    ON a.run = w.run AND a.stream = w.stream
ORDER BY a.run, a.stream
FOR UPDATE OF a;

-- Lost are the acknowledged events less those of settled sequences; of these, some may not be acknowledged yet. The
-- losses begin where the stored batches before them end.
-- name: book_restored
WITH told AS (
    SELECT a.run, a.stream, w.sequences::int8multirange AS sequences, w.events, w.until, a.stored,
           w.sequences::int8multirange - a.settled AS gone
    FROM store.accounts a
    JOIN unnest(%(run)s::bigint[], %(stream)s::text[], %(sequences)s::text[], %(events)s::bigint[],
                %(until)s::timestamptz[]) w (run, stream, sequences, events, until)
        ON a.run = w.run AND a.stream = w.stream
    WHERE NOT a.settled @> w.sequences::int8multirange
), batches AS (
    SELECT t.run, t.stream, sum(b.event_count) FILTER (WHERE NOT t.sequences @> b.sequence) AS ahead,
           max(b.last_time) FILTER (WHERE b.sequence < lower(t.gone)) AS before
    FROM told t JOIN store.batches b ON b.run = t.run AND b.stream = t.stream
    GROUP BY t.run, t.stream
), counted AS (
    SELECT t.run, t.stream, t.sequences, t.until,
           least(coalesce(b.before, r.started, t.until), t.until) AS since,
           greatest(t.events - t.stored + coalesce(b.ahead, 0) - coalesce(
               (SELECT sum(l.count) FROM store.losses l
                WHERE l.run = t.run AND l.stream = t.stream AND l.place IN ('ingest', 'spool')), 0), 0)::bigint AS count
    FROM told t
    JOIN store.runs r ON r.id = t.run
    LEFT JOIN batches b ON b.run = t.run AND b.stream = t.stream
), settled AS (
    UPDATE store.accounts a
    SET settled = a.settled + c.sequences, lost = a.lost + c.count,
        emitted = greatest(a.emitted, a.stored + a.lost + a.left_out + c.count)
    FROM counted c
    WHERE a.run = c.run AND a.stream = c.stream
), booked AS (
    INSERT INTO store.losses AS l (run, stream, place, reason, minute, first_time, last_time, count)
    SELECT run, stream, 'ingest', 'restored', date_trunc('minute', until), since, until, count
    FROM counted
    WHERE count > 0
    ON CONFLICT (run, stream, place, reason, minute) DO UPDATE
    SET count = l.count + excluded.count, first_time = least(l.first_time, excluded.first_time),
        last_time = greatest(l.last_time, excluded.last_time)
)
SELECT r.run_id::text, c.stream, c.since, c.until, c.count
FROM counted c JOIN store.runs r ON r.id = c.run
WHERE c.count > 0;

-- ---- tasks to show

-- A wanted task whose last run ended normally waits for the next run. One that is no longer wanted stops until its agent
-- knows it, since the agent may have begun a run that it has not told yet.
-- name: tasks
SELECT * FROM (
    SELECT t.id, t.task_id::text, t."group"::text AS group_id, m.machine_id AS node, m.hostname, t.origin, t.probe, t.definition, d.wanted,
           CASE WHEN r.state IS NULL AND d.wanted THEN 'pending'
                WHEN d.leaving THEN 'stopping'
                WHEN r.state IS NULL THEN CASE WHEN t.reason IS NULL THEN 'stopped' ELSE 'failed' END
                WHEN r.ended IS NULL AND NOT d.wanted AND t.origin = 'server' THEN 'stopping'
                WHEN r.ended IS NOT NULL AND d.wanted AND r.state = 'stopped' THEN 'pending'
                ELSE r.state END AS state,
           d.wanted OR d.leaving OR r.state IS NOT NULL AND r.ended IS NULL AS active,
           t.reason, r.error, t.next_try, t.deadline, t.created, t.started_by, r.stopped_by, r.cost, coalesce(s.sent_bytes, 0) AS sent_bytes,
           coalesce(r.notes, '{}') AS notes
    FROM store.tasks t
    JOIN store.machines m ON m.id = t.machine
    CROSS JOIN LATERAL (
        SELECT t.wanted AND lasts AS wanted, NOT t.wanted AND t.told IS NOT NULL AND lasts AS leaving
        FROM (SELECT t.deadline IS NULL OR now() < t.deadline + interval '5 s' AS lasts) l
    ) d
    LEFT JOIN LATERAL (
        SELECT state, ended, error, stopped_by, cost, store.notes(id, notes) AS notes
        FROM store.runs WHERE task = t.id ORDER BY run_id DESC LIMIT 1
    ) r ON true
    LEFT JOIN LATERAL (SELECT sum(sent_bytes) AS sent_bytes FROM store.runs WHERE task = t.id) s ON true
    WHERE (%(task_id)s::uuid IS NULL OR t.task_id = %(task_id)s)
      AND (%(group)s::uuid IS NULL OR t."group" = %(group)s)
) AS shown
WHERE %(state)s::text IS NULL OR state = %(state)s OR %(state)s = 'active' AND active
ORDER BY id DESC
LIMIT %(most)s;

-- name: task_runs
SELECT t.task_id::text, r.run_id::text, r.state, r."end", r.error, r.attach_point, r.started, r.ended, r.sent_bytes,
       r.cost, store.notes(r.id, r.notes) AS notes
FROM store.tasks t
CROSS JOIN LATERAL (SELECT * FROM store.runs WHERE task = t.id ORDER BY run_id DESC LIMIT %(most)s) r
WHERE t.task_id = ANY(%(task_ids)s::uuid[])
ORDER BY r.run_id DESC;

-- name: task_books
SELECT task_id::text, stream, sum(emitted) AS emitted, sum(stored) AS stored, sum(left_out) AS left_out,
       sum(under_way) AS under_way
FROM scope.books
WHERE task_id = ANY(%(task_ids)s::uuid[])
GROUP BY task_id, stream
ORDER BY stream;

-- name: task_losses
SELECT task_id::text, stream, place, reason, sum(count) AS count
FROM scope.losses
WHERE task_id = ANY(%(task_ids)s::uuid[])
GROUP BY task_id, stream, place, reason
ORDER BY stream, place, reason;

-- The newest of each task, and how many there are.
-- name: task_gaps
SELECT task_id, since, until, reason, gaps
FROM (
    SELECT task_id::text, since, until, reason, count(*) OVER (PARTITION BY task_id) AS gaps,
           row_number() OVER (PARTITION BY task_id ORDER BY since DESC) AS place
    FROM scope.gaps
    WHERE task_id = ANY(%(task_ids)s::uuid[])
) numbered
WHERE place <= %(most)s
ORDER BY task_id, since DESC;

-- ---- losses to show with events

-- name: find_task
SELECT id, machine FROM store.tasks WHERE task_id = %(task_id)s;

-- name: stream_losses
SELECT o.place, o.reason, sum(o.count) AS count
FROM store.losses o
JOIN store.runs r ON r.id = o.run
JOIN store.tasks t ON t.id = r.task
WHERE o.stream = %(stream)s
  AND (%(machines)s::integer[] IS NULL OR t.machine = ANY(%(machines)s))
  AND (%(task)s::bigint IS NULL OR t.id = %(task)s)
  AND (%(until)s::timestamptz IS NULL OR o.first_time < %(until)s)
  AND (%(since)s::timestamptz IS NULL OR o.last_time >= %(since)s)
GROUP BY o.place, o.reason
ORDER BY o.place, o.reason;

-- Of tasks that had recorded the stream. Nobody knows how many events there were.
-- name: stream_gaps
SELECT g.task_id::text, g.machine_id, g.hostname, g.since, g.until, g.reason AS run_ended_by
FROM scope.gaps g
JOIN store.runs r ON r.run_id = g.run_id
JOIN store.tasks t ON t.id = r.task
WHERE g.probe = %(probe)s
  AND EXISTS (SELECT FROM store.accounts a WHERE a.run = r.id AND a.stream = %(stream)s)
  AND (%(machines)s::integer[] IS NULL OR t.machine = ANY(%(machines)s))
  AND (%(task)s::bigint IS NULL OR t.id = %(task)s)
  AND (%(until)s::timestamptz IS NULL OR g.since < %(until)s)
  AND (%(since)s::timestamptz IS NULL OR g.until IS NULL OR g.until >= %(since)s)
ORDER BY g.since DESC
LIMIT %(most)s;

-- Each loss with its time, to the minute, and each time at which a task that had recorded a stream did not record.
-- name: losses
SELECT * FROM (
    SELECT o.stream, o.place, o.reason, o.count, o.first_time AS since, o.last_time AS until,
           t.task_id::text, m.machine_id, m.hostname, NULL AS run_ended_by
    FROM store.losses o
    JOIN store.runs r ON r.id = o.run
    JOIN store.tasks t ON t.id = r.task
    JOIN store.machines m ON m.id = t.machine
    WHERE (%(streams)s::text[] IS NULL OR o.stream = ANY(%(streams)s))
      AND (%(machines)s::integer[] IS NULL OR t.machine = ANY(%(machines)s))
      AND (%(task)s::bigint IS NULL OR t.id = %(task)s)
      AND o.first_time < %(until)s AND o.last_time >= %(since)s
    UNION ALL
    SELECT a.stream, 'agent', 'not_recorded', NULL, g.since, g.until,
           g.task_id::text, g.machine_id, g.hostname, g.reason
    FROM scope.gaps g
    JOIN store.runs r ON r.run_id = g.run_id
    JOIN store.tasks t ON t.id = r.task
    JOIN store.accounts a ON a.run = r.id
    WHERE (%(streams)s::text[] IS NULL OR a.stream = ANY(%(streams)s))
      AND (%(machines)s::integer[] IS NULL OR t.machine = ANY(%(machines)s))
      AND (%(task)s::bigint IS NULL OR t.id = %(task)s)
      AND g.since < %(until)s AND (g.until IS NULL OR g.until >= %(since)s)
) l
ORDER BY since DESC, stream, place, reason, task_id
LIMIT %(most)s;

-- Times of a window in which no task recorded a stream, and none was wanted to that had: these are gaps, see `losses`.
-- name: unrecorded
WITH runs AS (
    SELECT r.run_id, tstzrange(r.started, CASE WHEN r.ended IS NOT NULL THEN greatest(r.started, r.ended) END) AS span
    FROM store.accounts a
    JOIN store.runs r ON r.id = a.run
    JOIN store.tasks t ON t.id = r.task
    WHERE a.stream = %(stream)s
      AND (%(machines)s::integer[] IS NULL OR t.machine = ANY(%(machines)s))
      AND (%(task)s::bigint IS NULL OR t.id = %(task)s)
)
SELECT lower(span) AS since, upper(span) AS until
FROM unnest(tstzmultirange(tstzrange(%(since)s, %(until)s))
            - coalesce((SELECT range_agg(span) FROM runs), '{}')
            - coalesce((SELECT range_agg(tstzrange(g.since, g.until)) FROM scope.gaps g JOIN runs USING (run_id)), '{}')
     ) AS span
ORDER BY since
LIMIT %(most)s;

-- ---- ingest

-- name: beat
UPDATE store.pulse SET beat = now();

-- name: quarantined
SELECT q.id, r.run_id::text, m.machine_id, m.hostname, q.stream, q.sequence, q.events, q.code, q.reason, q.received,
       q.bytes, q.record IS NOT NULL AS kept
FROM store.quarantine q
JOIN store.runs r ON r.id = q.run
JOIN store.tasks t ON t.id = r.task
JOIN store.machines m ON m.id = t.machine
ORDER BY q.id DESC
LIMIT %(limit)s;

-- name: quarantined_record
SELECT q.record, q.boot_to_utc_ns, m.id AS machine, m.machine_id, r.installation
FROM store.quarantine q
JOIN store.runs r ON r.id = q.run
JOIN store.tasks t ON t.id = r.task
JOIN store.machines m ON m.id = t.machine
WHERE q.id = %(id)s;

-- name: drop_quarantined
DELETE FROM store.quarantine WHERE id = %(id)s RETURNING id;

-- ---- retention

-- name: dropped
SELECT day, reason, sum(rows)::bigint AS rows, sum(bytes)::bigint AS bytes, max(dropped_at) AS dropped_at
FROM scope.dropped
GROUP BY day, reason
ORDER BY max(dropped_at) DESC
LIMIT %(most)s;

-- name: dropped_days
SELECT count(DISTINCT day) FILTER (WHERE reason = 'age') AS age,
       count(DISTINCT day) FILTER (WHERE reason = 'limit') AS "limit",
       count(DISTINCT day) FILTER (WHERE reason = 'floor') AS floor
FROM scope.dropped;

-- ---- events

-- name: find_processes
SELECT id FROM store.processes
WHERE (%(pid)s::bigint IS NULL OR pid = %(pid)s)
  AND (%(start_ns)s::bigint IS NULL OR start_ns = %(start_ns)s)
  AND (%(machines)s::integer[] IS NULL OR machine = ANY(%(machines)s));

-- name: newest_process
-- A start is compared as a browser has it: as a double, which beyond 2^53 ns is rounded.
SELECT start_ns, exe FROM store.processes
WHERE machine = %(machine)s AND pid = %(pid)s AND (%(start_ns)s::bigint IS NULL OR start_ns::float8 = %(start_ns)s::float8)
ORDER BY start_ns DESC
LIMIT 1;

-- name: processes_and_parents
-- A parent is known by its pid alone: of those with this pid, it is the newest that began before its child.
WITH RECURSIVE found (id, pid, start_ns, parent_pid, parent_start_ns) AS (
    SELECT p.id, p.pid, p.start_ns, p.parent_pid, (
        SELECT max(q.start_ns) FROM store.processes q
        WHERE q.pid = NULLIF(p.parent_pid, 0) AND q.start_ns < p.start_ns AND q.machine = p.machine)
    FROM unnest(%(pids)s::bigint[], %(starts)s::bigint[]) w (pid, start_ns)
    JOIN store.processes p USING (pid, start_ns)
    WHERE p.machine = %(machine)s
    UNION
    SELECT p.id, p.pid, p.start_ns, p.parent_pid, (
        SELECT max(q.start_ns) FROM store.processes q
        WHERE q.pid = NULLIF(p.parent_pid, 0) AND q.start_ns < p.start_ns AND q.machine = p.machine)
    FROM found c JOIN store.processes p ON p.pid = c.parent_pid AND p.start_ns = c.parent_start_ns
    WHERE p.machine = %(machine)s
)
SELECT f.pid, f.start_ns, f.parent_pid, f.parent_start_ns, p.exe, p.cmdline, p.container,
       (SELECT booted FROM store.machines WHERE id = %(machine)s) AS booted
FROM found f JOIN store.processes p USING (id)
ORDER BY f.start_ns, f.pid;

-- name: tasks_of_batches
SELECT b.id, t.task_id::text AS task_id
FROM store.batches b JOIN store.runs r ON r.id = b.run JOIN store.tasks t ON t.id = r.task
WHERE b.id = ANY(%(batches)s::bigint[]) AND b.last_time >= %(since)s;

-- ---- machines that may connect

-- name: make_join_token
INSERT INTO store.join_tokens (secret_digest, expires, uses, labels)
VALUES (%(secret_digest)s, now() + %(valid)s, %(uses)s, %(labels)s);

-- name: forget_tokens
DELETE FROM store.join_tokens WHERE expires < now() - interval '30 days';

-- Joins wait for each other. Others may go on reading.
-- name: lock_members
LOCK TABLE store.members IN SHARE ROW EXCLUSIVE MODE;

-- The key that a machine has joined with: the answer to it was lost, or it joins again.
-- name: member
SELECT m.machine_id, m.certificate, m.expires, m.ended IS NULL AS active, t.secret_digest
FROM store.members m LEFT JOIN store.join_tokens t ON t.id = m.token
WHERE m.key_digest = %(key_digest)s;

-- name: use_token
UPDATE store.join_tokens SET used = used + 1
WHERE secret_digest = %(secret_digest)s AND expires > now() AND used < uses
RETURNING id, labels;

-- Whether others may not take the id of a machine: its own key is not among these.
-- name: id_taken
SELECT coalesce(bool_or(ending = 'revoked'), false) AS revoked,
       coalesce(bool_or(ending IS NULL AND expires + %(grace)s > now() AND key_digest <> %(key_digest)s), false) AS taken
FROM store.members
WHERE machine_id = %(machine_id)s OR key_digest = %(key_digest)s;

-- name: keep_member
INSERT INTO store.members (key_digest, machine_id, hostname, token, certificate, expires, confirmed)
VALUES (%(key_digest)s, %(machine_id)s, %(hostname)s, %(token)s, %(certificate)s, %(expires)s, true)
ON CONFLICT (key_digest) DO UPDATE
SET machine_id = excluded.machine_id, hostname = excluded.hostname, token = excluded.token, joined = now(),
    certificate = excluded.certificate, expires = excluded.expires, confirmed = true, ended = NULL, ending = NULL;

-- name: joined_with
SELECT machine_id FROM store.members
WHERE key_digest = %(key_digest)s AND machine_id = %(machine_id)s AND confirmed AND ended IS NULL
  AND expires + %(grace)s > now();

-- Another key of a machine is as confirmed as the one that it has shown.
-- name: renew_member
INSERT INTO store.members (key_digest, machine_id, hostname, certificate, expires, confirmed)
SELECT %(key_digest)s, %(machine_id)s, coalesce(max(hostname), ''), %(certificate)s, %(expires)s,
       coalesce(bool_or(confirmed) FILTER (WHERE key_digest = %(shown_key)s), false)
FROM store.members WHERE machine_id = %(machine_id)s AND ended IS NULL
ON CONFLICT (key_digest) DO UPDATE SET certificate = excluded.certificate, expires = excluded.expires
WHERE members.ended IS NULL;

-- A machine whose certificate is good, and of whose joining the database knows nothing: it was restored.
-- name: know_again
INSERT INTO store.members (key_digest, machine_id, hostname, expires, confirmed)
VALUES (%(key_digest)s, %(machine_id)s, %(hostname)s, %(expires)s, false)
ON CONFLICT (key_digest) DO NOTHING;

-- name: end_member
UPDATE store.members SET ended = now(), ending = %(ending)s
WHERE machine_id = %(machine_id)s AND ending IS DISTINCT FROM %(ending)s;

-- name: confirm_member
UPDATE store.members SET confirmed = true WHERE machine_id = %(machine_id)s AND ended IS NULL AND NOT confirmed;

-- name: ended_members
SELECT key_digest, ending FROM store.members WHERE ended IS NOT NULL AND expires + %(grace)s > now();

-- name: member_certificates
SELECT DISTINCT ON (machine_id) machine_id, hostname, certificate
FROM store.members WHERE ended IS NULL
ORDER BY machine_id, expires DESC;

-- name: find_members
SELECT machine_id, max(hostname) AS hostname FROM (
    SELECT machine_id, hostname FROM store.members UNION ALL SELECT machine_id, hostname FROM store.machines
) AS known
WHERE machine_id = %(node)s OR hostname = %(node)s
GROUP BY machine_id;

-- name: put_labels
INSERT INTO store.labels (machine_id, name, value)
SELECT %(machine_id)s, key, value FROM jsonb_each_text(%(labels)s)
ON CONFLICT (machine_id, name) DO UPDATE SET value = excluded.value;

-- name: drop_labels
DELETE FROM store.labels WHERE machine_id = %(machine_id)s AND name = ANY(%(names)s);

-- name: labels
SELECT coalesce(jsonb_object_agg(name, value), '{}') AS labels FROM store.labels WHERE machine_id = %(machine_id)s;

-- ---- certificates

-- name: keep_certificate
INSERT INTO store.certificates (serial, kind, name, role, hostname, expires)
VALUES (%(serial)s, %(kind)s, %(name)s, %(role)s, %(hostname)s, %(expires)s);

-- name: certificates
SELECT serial, kind, name, role, hostname, issued, expires, revoked
FROM store.certificates
WHERE expires > now()
ORDER BY issued DESC, serial;

-- name: revoke_person
UPDATE store.certificates SET revoked = now()
WHERE kind = 'operator' AND (serial = %(which)s OR name = %(which)s) AND revoked IS NULL AND expires > now();

-- name: revoke_certificates
UPDATE store.certificates SET revoked = now() WHERE kind = 'machine' AND name = %(machine_id)s AND revoked IS NULL;

-- name: revoked_persons
SELECT serial FROM store.certificates WHERE kind = 'operator' AND revoked IS NOT NULL AND expires > now();

-- ---- streams

-- name: descriptions
SELECT id, description FROM store.descriptions WHERE id > %(after)s ORDER BY id;

-- ---- accounts

-- name: add_user
INSERT INTO store.users (email, password, role) VALUES (%(email)s, %(password)s, %(role)s)
ON CONFLICT (email) DO NOTHING
RETURNING id::text;

-- name: users
SELECT u.id::text, u.email, u.role, u.disabled, u.created,
       (SELECT max(l.used) FROM store.logins l WHERE l.user_id = u.id) AS seen
FROM store.users u
ORDER BY u.email;

-- name: user_named
SELECT u.id::text, u.email, u.password, u.role, u.disabled IS NOT NULL AS disabled,
       EXISTS (SELECT FROM store.logins l WHERE l.user_id = u.id AND l.address = %(address)s
               AND l.reason IS DISTINCT FROM 'reuse') AS known_address
FROM store.users u
WHERE u.email = %(email)s;

-- name: user_of
SELECT id::text, email, password, role FROM store.users WHERE id = %(user)s::uuid;

-- At least one other admin must stay: who changes admins waits for others who do.
-- name: lock_admins
SELECT id::text FROM store.users WHERE role = 'admin' AND disabled IS NULL ORDER BY id FOR UPDATE;

-- name: change_user
UPDATE store.users
SET role = coalesce(%(role)s, role), password = coalesce(%(password)s, password),
    disabled = CASE WHEN %(disabled)s THEN coalesce(disabled, now())
                    WHEN NOT %(disabled)s THEN NULL ELSE disabled END
WHERE email = %(email)s
RETURNING id::text;

-- name: keep_password
UPDATE store.users SET password = %(password)s WHERE id = %(user)s::uuid AND password = %(before)s;

-- name: begin_login
WITH login AS (
    INSERT INTO store.logins (user_id, address, program, expires)
    VALUES (%(user)s::uuid, %(address)s, %(program)s, now() + %(valid)s)
    RETURNING id
), token AS (
    INSERT INTO store.refresh_tokens (digest, login) SELECT %(digest)s, id FROM login
)
SELECT id::text FROM login;

-- name: lock_refresh
SELECT r.spent, l.id::text AS login, l.ended, l.expires < now() AS expired, u.id::text AS user_id, u.email,
       u.disabled IS NOT NULL AS disabled, now() - r.spent AS since
FROM store.refresh_tokens r
JOIN store.logins l ON l.id = r.login
JOIN store.users u ON u.id = l.user_id
WHERE r.digest = %(digest)s
FOR UPDATE OF r, l;

-- name: spend_refresh
WITH spent AS (
    UPDATE store.refresh_tokens SET spent = now() WHERE digest = %(digest)s RETURNING login
), next AS (
    INSERT INTO store.refresh_tokens (digest, login) SELECT %(next)s, login FROM spent
)
UPDATE store.logins l SET used = now(), expires = now() + %(valid)s FROM spent WHERE l.id = spent.login;

-- name: end_login
UPDATE store.logins SET ended = now(), reason = %(reason)s WHERE id = %(login)s::uuid AND ended IS NULL;

-- name: end_logins
UPDATE store.logins SET ended = now(), reason = %(reason)s
WHERE user_id = %(user)s::uuid AND ended IS NULL AND id::text <> %(but)s;

-- name: login
SELECT u.id::text, u.email, u.role
FROM store.logins l JOIN store.users u ON u.id = l.user_id
WHERE l.id = %(login)s::uuid AND u.id = %(user)s::uuid AND l.ended IS NULL AND u.disabled IS NULL;

-- name: forget_logins
DELETE FROM store.logins WHERE expires < now() - interval '30 days';

-- name: make_api_token
INSERT INTO store.api_tokens (digest, user_id, name, role, expires)
VALUES (%(digest)s, %(user)s::uuid, %(name)s, %(role)s, now() + %(valid)s)
ON CONFLICT (user_id, name) DO NOTHING
RETURNING id::text;

-- name: api_token
SELECT u.id::text, u.email, u.role, t.role AS token_role, t.name
FROM store.api_tokens t JOIN store.users u ON u.id = t.user_id
WHERE t.digest = %(digest)s AND t.revoked IS NULL AND t.expires > now() AND u.disabled IS NULL;

-- name: api_tokens
SELECT t.id::text, t.name, u.email AS owner, t.role, t.created, t.expires, t.revoked
FROM store.api_tokens t JOIN store.users u ON u.id = t.user_id
WHERE %(user)s::text IS NULL OR u.id::text = %(user)s
ORDER BY t.created DESC;

-- name: revoke_api_token
UPDATE store.api_tokens SET revoked = now()
WHERE id = %(token)s::uuid AND revoked IS NULL AND (%(user)s::text IS NULL OR user_id::text = %(user)s);

-- name: invite
INSERT INTO store.invitations (digest, email, role, expires)
VALUES (%(digest)s, %(email)s, %(role)s, now() + %(valid)s);

-- name: use_invitation
DELETE FROM store.invitations WHERE digest = %(digest)s AND email = %(email)s AND expires > now() RETURNING role;

-- name: forget_invitations
DELETE FROM store.invitations WHERE expires < now();

-- name: lock_audit
SELECT number, digest FROM store.audit_head FOR UPDATE;

-- name: append_audit
WITH entry AS (
    INSERT INTO store.audit (number, time, actor, address, act, object, detail, digest)
    VALUES (%(number)s, %(time)s, %(actor)s, %(address)s, %(act)s, %(object)s, %(detail)s, %(digest)s)
)
UPDATE store.audit_head SET number = %(number)s, digest = %(digest)s;

-- name: last_policy
SELECT detail -> 'to' AS policy FROM store.audit WHERE act = 'retention.change' ORDER BY number DESC LIMIT 1;

-- name: take_acts
WITH taken AS (
    DELETE FROM store.acts
    WHERE id IN (SELECT id FROM store.acts ORDER BY id LIMIT %(most)s FOR UPDATE SKIP LOCKED)
    RETURNING id, actor, address, act, object, detail
)
SELECT actor, address, act, object, detail FROM taken ORDER BY id;

-- name: audit_head
SELECT number, digest FROM store.audit_head;

-- name: audit_after
SELECT number, time, actor, address, act, object, detail::text AS detail, digest
FROM store.audit
WHERE number > %(number)s
ORDER BY number
LIMIT %(most)s;

-- name: audit_before
SELECT number, time, actor, address, act, object, detail
FROM store.audit
WHERE number < coalesce(%(number)s, 9223372036854775807)
ORDER BY number DESC
LIMIT %(most)s;

-- ---- annotations

-- name: put_annotations
INSERT INTO store.annotations (id, time, until, text, labels, machine, pid, comm, made_by)
SELECT id, time, until, text, labels::jsonb, machine, pid, comm, made_by
FROM unnest(%(ids)s::uuid[], %(times)s::timestamptz[], %(untils)s::timestamptz[], %(texts)s::text[], %(labels)s::text[],
            %(machines)s::integer[], %(pids)s::integer[], %(comms)s::text[], %(makers)s::text[])
    AS a (id, time, until, text, labels, machine, pid, comm, made_by)
ON CONFLICT (id) DO NOTHING;

-- name: annotations
SELECT a.id::text, a.time, a.until, a.text, a.labels, m.machine_id, m.hostname, a.pid, a.comm, a.made_by
FROM store.annotations a LEFT JOIN store.machines m ON m.id = a.machine
WHERE (%(id)s::uuid IS NULL OR a.id = %(id)s)
  AND (%(since)s::timestamptz IS NULL OR coalesce(a.until, a.time) >= %(since)s)
  AND (%(until)s::timestamptz IS NULL OR a.time < %(until)s)
  AND (%(machines)s::integer[] IS NULL OR a.machine IS NULL OR a.machine = ANY(%(machines)s))
  AND a.labels @> %(labels)s::jsonb
ORDER BY a.time DESC, a.id
LIMIT %(most)s;

-- name: annotation_window
SELECT a.time AS since, coalesce(nullif(a.until, a.time), next.time, now()) AS until
FROM store.annotations AS a
CROSS JOIN LATERAL (
    SELECT min(b.time) AS time
    FROM store.annotations AS b
    WHERE b.time > a.time AND b.machine IS NOT DISTINCT FROM a.machine
      AND b.labels ?& ARRAY(SELECT jsonb_object_keys(a.labels))
) AS next
WHERE a.id = %(id)s;

-- From the first annotation with the label on, after which none has another value of it until the newest with the label.
-- name: label_window
WITH labelled AS NOT MATERIALIZED (
    SELECT a.time, a.until, a.labels @> %(label)s::jsonb AS has
    FROM store.annotations AS a
    WHERE a.labels ? %(name)s
      AND (%(machines)s::integer[] IS NULL OR a.machine IS NULL OR a.machine = ANY(%(machines)s))
), newest AS (
    SELECT max(time) AS time FROM labelled WHERE has
), before AS (
    SELECT max(l.time) AS time FROM labelled AS l CROSS JOIN newest AS n WHERE NOT l.has AND l.time < n.time
), during AS (
    SELECT min(l.time) AS since, max(l.until) AS until
    FROM labelled AS l CROSS JOIN before AS b WHERE l.has AND (b.time IS NULL OR l.time > b.time)
), next AS (
    SELECT min(l.time) AS time FROM labelled AS l CROSS JOIN newest AS n WHERE NOT l.has AND l.time > n.time
)
SELECT d.since, coalesce(d.until, next.time, now()) AS until FROM during AS d CROSS JOIN next;

-- name: drop_annotation
DELETE FROM store.annotations WHERE id = %(id)s;

-- ---- exports

-- Minutes of which rows were committed after the snapshot `seen`: those whose totals are new.
-- name: touched_minutes
SELECT s.stream, extract(epoch FROM m.minute)::bigint / 60 AS minute
FROM unnest(%(streams)s::text[]) AS s (stream)
CROSS JOIN LATERAL (
    SELECT DISTINCT date_trunc('minute', b.first_time) AS first, date_trunc('minute', b.last_time) AS last
    FROM store.batches AS b
    WHERE b.stream = s.stream AND b.xact >= pg_snapshot_xmin(%(seen)s::pg_snapshot)
      AND NOT pg_visible_in_snapshot(b.xact, %(seen)s::pg_snapshot)
      AND pg_visible_in_snapshot(b.xact, %(now)s::pg_snapshot)
) AS b
CROSS JOIN LATERAL generate_series(b.first, least(b.last, b.first + interval '1 day'), interval '1 minute') AS m (minute)
GROUP BY s.stream, m.minute
ORDER BY s.stream, m.minute;

-- name: export_position
SELECT position FROM store.exports WHERE name = %(name)s;

-- name: keep_export_position
INSERT INTO store.exports (name, position) VALUES (%(name)s, %(position)s)
ON CONFLICT (name) DO UPDATE SET (position, moved) = (EXCLUDED.position, now());
