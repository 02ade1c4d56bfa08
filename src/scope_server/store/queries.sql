-- Queries by name; `store/queries.py` reads them. Those of events are composed in `store/reader.py`.

-- name: ping
SELECT 1;

-- name: register_machine
INSERT INTO scope.machines (machine_id, hostname, kernel, architecture, cpus, memory_bytes, agent_version, booted)
VALUES (%(machine_id)s, %(hostname)s, %(kernel)s, %(architecture)s, %(cpus)s, %(memory_bytes)s, %(agent_version)s,
        %(booted)s)
ON CONFLICT (machine_id) DO UPDATE
SET hostname = excluded.hostname, kernel = excluded.kernel, architecture = excluded.architecture, cpus = excluded.cpus,
    memory_bytes = excluded.memory_bytes, agent_version = excluded.agent_version, booted = excluded.booted,
    last_seen = now()
RETURNING id;

-- name: seen
UPDATE scope.machines SET last_seen = now() WHERE id = %(machine)s;

-- name: machines
SELECT machine_id, hostname, kernel, architecture, cpus, memory_bytes, agent_version, booted, first_seen, last_seen
FROM scope.machines
ORDER BY hostname, machine_id;

-- name: find_machines
SELECT id, machine_id, hostname FROM scope.machines WHERE machine_id = %(node)s OR hostname = %(node)s;

-- name: find_processes
SELECT id FROM scope.processes
WHERE (%(pid)s::bigint IS NULL OR pid = %(pid)s)
  AND (%(start_ns)s::bigint IS NULL OR start_ns = %(start_ns)s)
  AND (%(machines)s::integer[] IS NULL OR machine = ANY(%(machines)s));

-- name: find_name
SELECT id FROM scope.names WHERE text = %(text)s;

-- name: create_task
INSERT INTO scope.tasks (task_id, machine, probe, definition, desired, replaces)
VALUES (%(task_id)s, %(machine)s, %(probe)s, %(definition)s, 'running', %(replaces)s)
ON CONFLICT (task_id) DO NOTHING;

-- name: desired_tasks
SELECT task_id::text, probe, definition, state, started FROM scope.tasks
WHERE machine = %(machine)s AND desired = 'running'
ORDER BY id;

-- name: unwanted_tasks
SELECT task_id::text FROM scope.tasks WHERE task_id = ANY(%(task_ids)s::uuid[]) AND desired = 'stopped';

-- name: stop_task
UPDATE scope.tasks SET desired = 'stopped' WHERE task_id = %(task_id)s;

-- name: end_task
UPDATE scope.tasks
SET desired = 'stopped', state = %(state)s, error = %(error)s, ended = coalesce(ended, now())
WHERE task_id = %(task_id)s;

-- name: update_task
UPDATE scope.tasks
SET state = %(state)s, error = %(error)s, attach_point = %(attach_point)s, sent_bytes = %(sent_bytes)s, cost = %(cost)s,
    started = coalesce(%(started)s, started), ended = coalesce(%(ended)s, ended),
    desired = CASE WHEN %(over)s THEN 'stopped' ELSE desired END
WHERE task_id = %(task_id)s AND machine = %(machine)s
RETURNING id;

-- name: tasks
SELECT t.task_id::text, m.machine_id AS node, m.hostname, t.probe, t.definition, t.desired, t.state, t.error,
       t.attach_point, t.sent_bytes, t.cost, t.replaces::text, t.created, t.started, t.ended
FROM scope.tasks t JOIN scope.machines m ON m.id = t.machine
WHERE (%(task_id)s::uuid IS NULL OR t.task_id = %(task_id)s)
  AND (%(machines)s::integer[] IS NULL OR t.machine = ANY(%(machines)s))
  AND (%(state)s::text IS NULL OR t.state = %(state)s
       OR %(state)s = 'active' AND t.state NOT IN ('stopped', 'failed'))
ORDER BY t.id DESC
LIMIT %(limit)s;

-- name: books
SELECT task_id::text, stream, emitted, stored, lost, balance FROM scope.books WHERE task_id = ANY(%(task_ids)s::uuid[])
ORDER BY stream;

-- name: losses
SELECT t.task_id::text, l.stream, l.place, l.reason, l.count
FROM scope.losses l JOIN scope.tasks t ON t.id = l.task
WHERE t.task_id = ANY(%(task_ids)s::uuid[])
ORDER BY l.stream, l.place, l.reason;

-- Of the tasks that have rows of the stream in the range; losses carry no time of their own.
-- name: stream_losses
SELECT l.place, l.reason, sum(l.count)::bigint AS count
FROM scope.losses l JOIN scope.tasks t ON t.id = l.task
WHERE l.stream = %(stream)s
  AND (%(machines)s::integer[] IS NULL OR t.machine = ANY(%(machines)s))
  AND (%(until)s::timestamptz IS NULL OR coalesce(t.started, t.created) < %(until)s)
  AND (%(since)s::timestamptz IS NULL OR t.ended IS NULL OR t.ended >= %(since)s)
GROUP BY l.place, l.reason
ORDER BY l.place, l.reason;

-- The begin of the newest so many batches that begin before a time, or nothing.
-- name: window_back
SELECT min(first_time) AS edge, count(*) AS count FROM (
    SELECT first_time FROM scope.ledger
    WHERE stream = %(stream)s AND status = 'stored' AND event_count > 0 AND first_time < %(before)s
    ORDER BY first_time DESC LIMIT %(batches)s
) newest;

-- The end of the oldest so many batches that end at a time or after it, or nothing.
-- name: window_forth
SELECT max(last_time) AS edge, count(*) AS count FROM (
    SELECT last_time FROM scope.ledger
    WHERE stream = %(stream)s AND status = 'stored' AND event_count > 0 AND last_time >= %(from)s
    ORDER BY last_time LIMIT %(batches)s
) oldest;

-- name: boot_offsets
SELECT id, boot_to_utc_ns FROM scope.ledger WHERE id = ANY(%(batches)s);

-- name: leaks
SELECT machine_id, hostname, pid, start_ns, comm, memory, device, stack, ended, sum(live_bytes)::bigint AS live_bytes,
       sum(live_count)::bigint AS live_count, sum(allocations)::bigint AS allocations,
       (sum(mean_age_ns::numeric * live_count) / sum(live_count))::bigint AS mean_age_ns, max(time) AS time
FROM (
    SELECT DISTINCT ON (machine_id, pid, start_ns, memory, device, stack_id)
           machine_id, hostname, pid, start_ns, comm, memory, device, live_bytes, live_count, allocations, mean_age_ns,
           stack, ended = 1 AS ended, time
    FROM scope.cuda_live
    WHERE (%(pid)s::bigint IS NULL OR pid = %(pid)s)
      AND (%(machine)s::text IS NULL OR machine_id = %(machine)s)
      AND time > now() - make_interval(secs => %(seconds)s)
    ORDER BY machine_id, pid, start_ns, memory, device, stack_id, time DESC
) AS latest
WHERE live_count > 0
GROUP BY machine_id, hostname, pid, start_ns, comm, memory, device, stack, ended
ORDER BY ended, live_bytes DESC
LIMIT %(limit)s;

-- name: unknown_frees
SELECT machine_id, hostname, pid, start_ns, comm, sum(unknown_frees)::bigint AS unknown_frees
FROM (
    SELECT DISTINCT ON (machine_id, pid, start_ns, memory, device)
           machine_id, hostname, pid, start_ns, comm, unknown_frees
    FROM scope.cuda_memory
    WHERE (%(pid)s::bigint IS NULL OR pid = %(pid)s)
      AND (%(machine)s::text IS NULL OR machine_id = %(machine)s)
      AND time > now() - make_interval(secs => %(seconds)s)
    ORDER BY machine_id, pid, start_ns, memory, device, time DESC
) AS latest
GROUP BY machine_id, hostname, pid, start_ns, comm
HAVING sum(unknown_frees) > 0
ORDER BY unknown_frees DESC
LIMIT %(limit)s;
