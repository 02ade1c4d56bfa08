-- Streams and columns that agents described, because the server's catalogue lacked them.
CREATE TABLE store.descriptions (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream      text NOT NULL,
    description json NOT NULL,
    received    timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE store.descriptions IS 'Streams and columns that agents described, because the catalogue lacked them.';
COMMENT ON COLUMN store.descriptions.id IS 'number of the description';
COMMENT ON COLUMN store.descriptions.stream IS 'name of the stream';
COMMENT ON COLUMN store.descriptions.description IS 'columns, meanings, rollup and states, as in catalogue.json';
COMMENT ON COLUMN store.descriptions.received IS 'when the table was made or extended';
