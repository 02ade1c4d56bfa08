-- Rows that the filter of a task left out.
ALTER TABLE store.accounts ADD COLUMN left_out bigint NOT NULL DEFAULT 0;
COMMENT ON TABLE store.accounts IS 'Event counts per run and stream: emitted, stored, lost and left out.';
COMMENT ON COLUMN store.accounts.left_out IS 'rows that the task''s filter did not take';

CREATE OR REPLACE VIEW scope.books AS
SELECT t.task_id, r.run_id, a.stream, a.emitted, a.stored, a.lost,
       a.emitted - a.stored - a.lost - a.left_out AS under_way,
       r.ended IS NOT NULL AND a.last_sequence IS NOT NULL
           AND a.settled @> int8multirange(int8range(1, a.last_sequence + 1)) AS closed,
       a.incomplete, a.left_out
FROM store.accounts a
JOIN store.runs r ON r.id = a.run
JOIN store.tasks t ON t.id = r.task;
COMMENT ON VIEW scope.books IS 'Event counts per run and stream: emitted = stored + lost + left_out + under_way.';
COMMENT ON COLUMN scope.books.left_out IS 'rows that the task''s filter did not take';
