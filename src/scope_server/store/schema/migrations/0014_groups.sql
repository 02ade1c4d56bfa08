-- Tasks that were started together, and templates: probes with options, under a name.
ALTER TABLE store.tasks ADD COLUMN "group" uuid;
CREATE INDEX tasks_group ON store.tasks ("group") WHERE "group" IS NOT NULL;
COMMENT ON COLUMN store.tasks."group" IS 'id that tasks have in common that were started together; null: started alone';

CREATE OR REPLACE VIEW scope.tasks AS
SELECT t.task_id, m.machine_id, m.hostname, t.origin, t.probe, t.definition, t.wanted, t.deadline, t.reason, t.created,
       t.started_by, t."group" AS group_id
FROM store.tasks t JOIN store.machines m ON m.id = t.machine;
COMMENT ON COLUMN scope.tasks.group_id IS 'id that tasks have in common that were started together';

CREATE TABLE store.templates (
    name    text PRIMARY KEY,
    meaning text NOT NULL,
    parts   jsonb NOT NULL,
    made_by text NOT NULL,
    made    timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE store.templates IS 'Templates that people have made: several probes with options, started as one.';
COMMENT ON COLUMN store.templates.name IS 'name of the template';
COMMENT ON COLUMN store.templates.meaning IS 'what one learns with it';
COMMENT ON COLUMN store.templates.parts IS 'its probes, each with its options';
COMMENT ON COLUMN store.templates.made_by IS 'who has made it';
COMMENT ON COLUMN store.templates.made IS 'when it was made, or changed';
