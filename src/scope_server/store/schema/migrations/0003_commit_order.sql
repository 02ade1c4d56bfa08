-- Who follows a stream asks for the batches that have been committed since it asked last. Their times do not tell, for
-- a batch may come late; nor do their ids, which are drawn before a commit. Which transactions a snapshot sees does.
-- Batches that are there already are of a transaction that every snapshot sees.
ALTER TABLE store.batches ADD COLUMN xact xid8 NOT NULL DEFAULT '3';
ALTER TABLE store.batches ALTER COLUMN xact SET DEFAULT pg_current_xact_id();
CREATE INDEX ON store.batches (stream, xact, id);
COMMENT ON COLUMN store.batches.xact IS 'the transaction that stored it';
