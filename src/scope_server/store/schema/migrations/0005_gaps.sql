-- Times at which a task was wanted and had no run, such as those without its agent. A task that was stopped then has
-- none: nobody knows how long it was still wanted.
CREATE VIEW scope.gaps AS
SELECT t.task_id, r.run_id, m.machine_id, m.hostname, t.probe, r.ended AS since,
       coalesce(r.next_started, CASE WHEN t.deadline < now() THEN t.deadline END) AS until, r."end" AS reason
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
           ELSE r.ended < t.deadline AND t.deadline < now() END;
COMMENT ON VIEW scope.gaps IS 'Times at which a task was wanted but not recorded, such as without its agent.';
COMMENT ON COLUMN scope.gaps.task_id IS 'the task''s id';
COMMENT ON COLUMN scope.gaps.run_id IS 'the run before the gap';
COMMENT ON COLUMN scope.gaps.machine_id IS 'the machine''s id';
COMMENT ON COLUMN scope.gaps.hostname IS 'the machine''s name';
COMMENT ON COLUMN scope.gaps.probe IS 'name of the probe';
COMMENT ON COLUMN scope.gaps.since IS 'when the run before ended, or was last known to be alive';
COMMENT ON COLUMN scope.gaps.until IS 'when the next run started, or the task''s duration was over; null: not yet';
COMMENT ON COLUMN scope.gaps.reason IS
    'why the run before ended: shutdown (its agent stopped), killed (its agent died), failure';
