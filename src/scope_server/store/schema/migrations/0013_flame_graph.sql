-- Flame graphs in SQL: nested sets, as Grafana's flame graph panel reads them. Few stacks have most of the weight, and
-- no panel can draw all of the others: these count as the root's own weight, so that the sum is exact.
CREATE FUNCTION store.flame_graph(stacks bigint[], weights numeric[], most integer DEFAULT 5000)
RETURNS TABLE (level integer, value bigint, self bigint, label text) LANGUAGE sql STABLE PARALLEL SAFE AS $$
    WITH given AS (
        SELECT CASE WHEN row_number() OVER (ORDER BY u.weight DESC) <= most THEN coalesce(s.frames, '{}')
                    ELSE '{}' END AS frames,
               u.weight
        FROM unnest(stacks, weights) AS u (stack, weight) LEFT JOIN store.stacks AS s ON s.id = u.stack
    ), nodes AS (
        SELECT g.frames[:d.depth] AS path, sum(g.weight) AS value,
               sum(g.weight) FILTER (WHERE d.depth = cardinality(g.frames)) AS self
        FROM given AS g CROSS JOIN LATERAL generate_series(0, cardinality(g.frames)) AS d (depth)
        GROUP BY 1
    )
    SELECT cardinality(n.path), n.value::bigint, coalesce(n.self, 0)::bigint, coalesce(f.text, 'total')
    FROM nodes AS n LEFT JOIN store.frames AS f ON f.id = n.path[cardinality(n.path)]
    ORDER BY n.path
$$;
COMMENT ON FUNCTION store.flame_graph(bigint[], numeric[], integer) IS
    'The flame graph of stacks (keys in store.stacks) with their weights: its nodes, each before those that it calls.';
