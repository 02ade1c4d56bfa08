-- A start that finds nothing changed compares no table.
CREATE TABLE store.prepared (
    wanted text NOT NULL,
    found text NOT NULL
);
COMMENT ON TABLE store.prepared IS 'What the last server that compared all tables, views and functions made them from, and what it left.';
COMMENT ON COLUMN store.prepared.wanted IS 'digest of the code and of the streams';
COMMENT ON COLUMN store.prepared.found IS 'digest of the objects and of the transactions that last changed them';
