import { queryOptions } from "@tanstack/react-query";

import type { Node } from "../api/answers";
import { api, data } from "../api/client";

export const nodes = queryOptions({
  queryKey: ["nodes"],
  queryFn: async ({ signal }) => (await data(api.GET("/api/v1/nodes", { signal }))).nodes,
  refetchInterval: 10_000,
});

/** What names a machine among those that are known: its hostname, or its id where several have the same. */
export function nameAmong(known: Node[], node: Node): string {
  return known.some((other) => other.hostname === node.hostname && other.machine_id !== node.machine_id) ? node.machine_id : node.hostname;
}

export const probes = (node: string) =>
  queryOptions({
    queryKey: ["probes", node],
    queryFn: ({ signal }) => data(api.GET("/api/v1/probes", { params: { query: { node: node || undefined } }, signal })),
    staleTime: 60_000,
    retry: false,
    // A young agent still tries its probes.
    refetchInterval: ({ state }) => (state.error !== null || (state.data?.connected && !state.data.current)) && 5000,
  });
