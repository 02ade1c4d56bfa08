-- A task that is no longer wanted may still be recorded by an agent that is away: it knows only what it was told.
ALTER TABLE store.tasks ADD COLUMN told bigint;
COMMENT ON COLUMN store.tasks.told IS
    'number of the last message of wanted tasks that had it; null: none had, or its agent has taken a later one or ended it';
CREATE INDEX tasks_told ON store.tasks (machine) WHERE told IS NOT NULL;
