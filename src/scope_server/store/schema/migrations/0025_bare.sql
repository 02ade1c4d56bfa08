-- Merged totals have rows without keys now (level 3). Those of before are merged again, from the rows per minute.
DO $$
DECLARE
    rollup text;
BEGIN
    FOR rollup IN SELECT relname FROM pg_class WHERE relnamespace = 'rollups'::regnamespace AND relkind = 'p' LOOP
        EXECUTE format('DELETE FROM rollups.%I WHERE level = 2 OR machine = 0', rollup);
        EXECUTE format('UPDATE rollups.%I SET level = 0 WHERE level = 1', rollup);
    END LOOP;
END
$$;
