-- What an agent told of its machine is kept when the session is over, and said to be of an earlier one.
ALTER TABLE store.machines ADD COLUMN probes_current boolean NOT NULL DEFAULT false;
UPDATE store.machines SET probes_current = probes IS NOT NULL;
COMMENT ON COLUMN store.machines.probes IS 'the ListProbesResponse that an agent told last, compressed; null: none told it';
COMMENT ON COLUMN store.machines.probes_current IS 'whether the agent of the last session has told it';
