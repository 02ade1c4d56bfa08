-- A server asks once a second, for all its agents, which machines' wanted tasks have changed. As in 0003, PostgreSQL's
-- snapshots tell what was committed since. A notification makes the server ask at once.
ALTER TABLE store.tasks ADD COLUMN changed xid8 NOT NULL DEFAULT '3';
COMMENT ON COLUMN store.tasks.changed IS 'last transaction that changed what the machine''s agent is told of the task';
CREATE INDEX tasks_changed ON store.tasks (changed);

CREATE FUNCTION store.wish_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.changed := pg_current_xact_id();
    PERFORM pg_notify('scope_wishes', '');
    RETURN NEW;
END
$$;
CREATE TRIGGER wish_made BEFORE INSERT ON store.tasks FOR EACH ROW
    WHEN (NEW.wanted AND NEW.origin = 'server')
    EXECUTE FUNCTION store.wish_changed();
CREATE TRIGGER wish_changed BEFORE UPDATE ON store.tasks FOR EACH ROW
    WHEN ((OLD.wanted OR NEW.wanted) AND (OLD.origin = 'server' OR NEW.origin = 'server')
          AND (OLD.wanted, OLD.origin, OLD.definition, OLD.deadline)
              IS DISTINCT FROM (NEW.wanted, NEW.origin, NEW.definition, NEW.deadline))
    EXECUTE FUNCTION store.wish_changed();
