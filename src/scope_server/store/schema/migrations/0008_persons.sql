-- Who started and stopped what was started on a machine itself, through AgentControl.

ALTER TABLE store.tasks ADD COLUMN started_by text;
ALTER TABLE store.runs ADD COLUMN stopped_by text;

CREATE OR REPLACE VIEW scope.tasks AS
SELECT t.task_id, m.machine_id, m.hostname, t.origin, t.probe, t.definition, t.wanted, t.deadline, t.reason, t.created,
       t.started_by
FROM store.tasks t JOIN store.machines m ON m.id = t.machine;

CREATE OR REPLACE VIEW scope.runs AS
SELECT r.run_id, t.task_id, m.machine_id, m.hostname, t.probe, r.state, r."end", r.error, r.attach_point, r.started,
       r.ended, r.sent_bytes, r.cost, r.notes, r.stopped_by
FROM store.runs r JOIN store.tasks t ON t.id = r.task JOIN store.machines m ON m.id = t.machine;

COMMENT ON COLUMN store.tasks.started_by IS
    'The person who started the task through AgentControl, by the name in the certificate; null: started by the server.';
COMMENT ON COLUMN store.runs.stopped_by IS
    'The person who stopped the run through AgentControl; null: nobody did.';
COMMENT ON COLUMN scope.tasks.started_by IS
    'The person who started the task through AgentControl, by the name in the certificate; null: started by the server.';
COMMENT ON COLUMN scope.runs.stopped_by IS
    'The person who stopped the run through AgentControl; null: nobody did.';
