-- A client that follows a stream asks for the batches that were committed since its last question. Times cannot answer
-- this, because a batch may be late; nor can ids, which are drawn before the commit. PostgreSQL's snapshots can: they
-- tell which transactions are visible. Existing batches get a transaction that is visible in every snapshot.
ALTER TABLE store.batches ADD COLUMN xact xid8 NOT NULL DEFAULT '3';
ALTER TABLE store.batches ALTER COLUMN xact SET DEFAULT pg_current_xact_id();
CREATE INDEX ON store.batches (stream, xact, id);
COMMENT ON COLUMN store.batches.xact IS 'transaction that stored the batch';
