-- With these, a server finds out that the database was restored from an older copy.
ALTER TABLE store.machines ADD COLUMN wanted_number bigint;
COMMENT ON COLUMN store.machines.wanted_number IS
    'number of the last message of wanted tasks to the agent; an agent that took a later one knows more than the database';

-- The notes of a run (key), with those that follow from its losses.
CREATE FUNCTION store.notes(run bigint, notes text[]) RETURNS text[] LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT notes || coalesce(array_agg(format(
               '%s: %s events of %s to %s are gone: the database was restored from an older copy',
               l.stream, l.count, l.first_time AT TIME ZONE 'UTC', l.last_time AT TIME ZONE 'UTC')
               ORDER BY l.last_time, l.stream), '{}')
    FROM store.losses l
    WHERE l.run = $1 AND l.place = 'ingest' AND l.reason = 'restored'
$$;
