-- Agents tell which tasks people started and stopped on their machines. Entries of the audit log are made one after the
-- other, for which the writers do not wait: these acts do.
CREATE TABLE store.acts (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    actor   text NOT NULL,
    address text NOT NULL,
    act     text NOT NULL,
    object  text NOT NULL,
    detail  jsonb NOT NULL
);
COMMENT ON TABLE store.acts IS 'What people did on machines, until it is in the audit log.';
COMMENT ON COLUMN store.acts.id IS 'in the order in which the server was told';
COMMENT ON COLUMN store.acts.actor IS 'who did it; empty: unknown';
COMMENT ON COLUMN store.acts.address IS 'id of the machine';
COMMENT ON COLUMN store.acts.act IS 'task.start or task.stop';
COMMENT ON COLUMN store.acts.object IS 'id of the task';
COMMENT ON COLUMN store.acts.detail IS 'what else there is to say';

CREATE FUNCTION store.task_started() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO store.acts (actor, address, act, object, detail)
    SELECT coalesce(NEW.started_by, ''), m.machine_id, 'task.start', NEW.task_id::text,
           jsonb_build_object('node', m.hostname, 'probe', NEW.probe, 'definition', NEW.definition)
    FROM store.machines AS m WHERE m.id = NEW.machine;
    RETURN NULL;
END
$$;
-- A batch may have created the task without its definition.
CREATE TRIGGER started_there AFTER INSERT ON store.tasks FOR EACH ROW
    WHEN (NEW.origin = 'agent' AND NEW.definition <> '{}')
    EXECUTE FUNCTION store.task_started();
CREATE TRIGGER said_to_be_started_there AFTER UPDATE ON store.tasks FOR EACH ROW
    WHEN (NEW.origin = 'agent' AND OLD.definition = '{}' AND NEW.definition <> '{}')
    EXECUTE FUNCTION store.task_started();

CREATE FUNCTION store.run_stopped() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO store.acts (actor, address, act, object, detail)
    SELECT NEW.stopped_by, m.machine_id, 'task.stop', t.task_id::text, jsonb_build_object('node', m.hostname)
    FROM store.tasks AS t JOIN store.machines AS m ON m.id = t.machine WHERE t.id = NEW.task;
    RETURN NULL;
END
$$;
-- Only agents say who stopped a run: somebody on the machine. What people stop through the API is in the log before.
CREATE TRIGGER stopped_there AFTER UPDATE ON store.runs FOR EACH ROW
    WHEN (OLD.stopped_by IS NULL AND NEW.stopped_by IS NOT NULL)
    EXECUTE FUNCTION store.run_stopped();

CREATE INDEX ON store.audit (number) WHERE act = 'retention.change';
