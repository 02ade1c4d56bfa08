-- What is stored is counted with the rows, in their transaction: summing the ledger at each look grows with time.
ALTER TABLE scope.accounts ADD COLUMN stored bigint NOT NULL DEFAULT 0;

INSERT INTO scope.accounts (task, stream, emitted, stored)
SELECT task, stream, 0, coalesce(sum(event_count) FILTER (WHERE status = 'stored'), 0)
FROM scope.ledger GROUP BY task, stream
ON CONFLICT (task, stream) DO UPDATE SET stored = excluded.stored;

-- balance is 0 once all that was emitted has arrived; above 0, so much is still under way.
CREATE OR REPLACE VIEW scope.books AS
SELECT t.task_id,
       k.stream,
       coalesce(a.emitted, 0) AS emitted,
       coalesce(a.stored, 0) AS stored,
       coalesce(l.lost, 0) AS lost,
       coalesce(a.emitted, 0) - coalesce(a.stored, 0) - coalesce(l.lost, 0) AS balance
FROM (SELECT task, stream FROM scope.accounts UNION SELECT task, stream FROM scope.losses) k
JOIN scope.tasks t ON t.id = k.task
LEFT JOIN scope.accounts a ON a.task = k.task AND a.stream = k.stream
LEFT JOIN LATERAL (SELECT sum(o.count)::bigint AS lost FROM scope.losses o
                   WHERE o.task = k.task AND o.stream = k.stream) l ON true;
