import { queryOptions, useQuery } from "@tanstack/react-query";

import { api, data } from "./client";
import type { Stream } from "./columns";

export const streams = queryOptions({
  queryKey: ["streams"],
  queryFn: async ({ signal }) => (await data(api.GET("/api/v1/streams", { signal }))).streams,
  staleTime: 5 * 60_000,
});

/** The stream of this name; undefined: it is not known, or not yet. */
export function useStream(name: string): Stream | undefined {
  return useQuery(streams).data?.find((one) => one.name === name);
}
