-- What an agent has told in its session, so that every server of a fleet can say it; old once the session is over.
ALTER TABLE store.machines ADD COLUMN spool jsonb, ADD COLUMN probes bytea;
COMMENT ON COLUMN store.machines.spool IS 'what waited on the machine to be sent, at the last report';
COMMENT ON COLUMN store.machines.probes IS 'the ListProbesResponse of the session''s agent, compressed; null: not told';
