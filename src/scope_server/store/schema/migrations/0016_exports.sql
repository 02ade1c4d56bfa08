-- How far what is pushed to other programs has been sent.
CREATE TABLE store.exports (
    name     text PRIMARY KEY,
    position text NOT NULL,
    moved    timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE store.exports IS 'How far what is pushed to other programs has been sent.';
COMMENT ON COLUMN store.exports.name IS 'target and source, such as otlp.spans';
COMMENT ON COLUMN store.exports.position IS 'what follows it is sent next; only its source can read it';
COMMENT ON COLUMN store.exports.moved IS 'when the position was stored';
