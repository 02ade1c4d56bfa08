-- When a task was stopped: without its agent, it was not recorded until then.
ALTER TABLE store.tasks ADD COLUMN stopped timestamptz;
COMMENT ON COLUMN store.tasks.stopped IS 'when it was no longer wanted';

CREATE FUNCTION store.task_stopped() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.stopped := now();
    RETURN NEW;
END
$$;
CREATE TRIGGER task_stopped BEFORE UPDATE ON store.tasks FOR EACH ROW
    WHEN (OLD.wanted AND NOT NEW.wanted)
    EXECUTE FUNCTION store.task_stopped();

CREATE OR REPLACE VIEW scope.gaps AS
SELECT t.task_id, r.run_id, m.machine_id, m.hostname, t.probe, r.ended AS since,
       coalesce(r.next_started, least(t.stopped, CASE WHEN t.deadline < now() THEN t.deadline END)) AS until,
       r."end" AS reason
FROM store.tasks t
JOIN store.machines m ON m.id = t.machine
CROSS JOIN LATERAL (
    SELECT run_id, ended, "end", lead(started) OVER w AS next_started, lead(id) OVER w AS next
    FROM store.runs
    WHERE task = t.id
    WINDOW w AS (ORDER BY run_id)
) r
WHERE r."end" IN ('shutdown', 'killed', 'failure')
  AND CASE WHEN r.next IS NOT NULL THEN r.ended < r.next_started
           WHEN t.wanted THEN coalesce(r.ended < t.deadline, true)
           ELSE r.ended < least(t.stopped, t.deadline) END;
COMMENT ON COLUMN scope.gaps.until IS
    'when the next run started, or the task was stopped or its duration was over; null: not yet';
