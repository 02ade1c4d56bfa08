-- What people and programs say about a moment or a time.
CREATE TABLE store.annotations (
    id      uuid PRIMARY KEY,
    time    timestamptz NOT NULL,
    until   timestamptz CHECK (until >= time),
    text    text NOT NULL,
    labels  jsonb NOT NULL DEFAULT '{}',
    machine integer REFERENCES store.machines,
    pid     integer,
    comm    text,
    made_by text,
    made    timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ON store.annotations (time);
CREATE INDEX ON store.annotations USING gin (labels jsonb_path_ops);
COMMENT ON TABLE store.annotations IS 'What people and programs say about a moment or a time.';
COMMENT ON COLUMN store.annotations.id IS 'id, by which it is stored once';
COMMENT ON COLUMN store.annotations.time IS 'the moment, or the begin of the time';
COMMENT ON COLUMN store.annotations.until IS 'the end of the time; null: a moment';
COMMENT ON COLUMN store.annotations.text IS 'what is said, such as step 1200';
COMMENT ON COLUMN store.annotations.labels IS 'labels, such as epoch=3';
COMMENT ON COLUMN store.annotations.machine IS 'key in store.machines; null: it is about all machines';
COMMENT ON COLUMN store.annotations.pid IS 'process that said it; null: a person, or unknown';
COMMENT ON COLUMN store.annotations.comm IS 'name of the process that said it';
COMMENT ON COLUMN store.annotations.made_by IS 'person who made it; null: a program';
COMMENT ON COLUMN store.annotations.made IS 'when the server got it';

CREATE VIEW scope.annotations AS
SELECT a.id, a.time, a.until, a.text, a.labels, m.machine_id, m.hostname, a.pid, a.comm, a.made_by
FROM store.annotations a LEFT JOIN store.machines m ON m.id = a.machine;
COMMENT ON VIEW scope.annotations IS 'What people and programs say about a moment or a time.';
COMMENT ON COLUMN scope.annotations.id IS 'id of the annotation';
COMMENT ON COLUMN scope.annotations.time IS 'the moment, or the begin of the time';
COMMENT ON COLUMN scope.annotations.until IS 'the end of the time; null: a moment';
COMMENT ON COLUMN scope.annotations.text IS 'what is said, such as step 1200';
COMMENT ON COLUMN scope.annotations.labels IS 'labels, such as epoch=3';
COMMENT ON COLUMN scope.annotations.machine_id IS 'id of the machine; null: it is about all machines';
COMMENT ON COLUMN scope.annotations.hostname IS 'name of the machine';
COMMENT ON COLUMN scope.annotations.pid IS 'process that said it; null: a person, or unknown';
COMMENT ON COLUMN scope.annotations.comm IS 'name of the process that said it';
COMMENT ON COLUMN scope.annotations.made_by IS 'person who made it; null: a program';
