-- How the rows of streams lie in this database: chosen when it is made. Databases that have streams already have blocks.
CREATE TABLE store.layout (name text PRIMARY KEY);
INSERT INTO store.layout (name) SELECT 'blocks' WHERE EXISTS (SELECT FROM store.streams);
COMMENT ON TABLE store.layout IS 'How the rows of streams lie in this database.';
COMMENT ON COLUMN store.layout.name IS 'blocks or hypertables; a server with the other layout does not start';

CREATE SCHEMA rows;
COMMENT ON SCHEMA rows IS 'Rows in hypertables of TimescaleDB, in databases with that layout; use the views in schema scope instead.';
