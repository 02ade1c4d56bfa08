import { queryOptions, useQuery } from "@tanstack/react-query";

import { api, data } from "./client";
import type { Column, Stream } from "./columns";
import type { components } from "./schema";

export const streams = queryOptions({
  queryKey: ["streams"],
  queryFn: async ({ signal }) => named(await data(api.GET("/api/v1/streams", { signal }))),
  staleTime: 5 * 60_000,
});

/** The streams; columns of errors and signals with the names of these. */
function named({ streams, codes }: components["schemas"]["KnownStreams"]): Stream[] {
  const column = (one: Column) => ({ ...one, names: one.codes ? codes[one.codes] : undefined });
  return streams.map((stream) => ({ ...stream, columns: stream.columns.map(column) }));
}

/** The stream of this name; undefined: it is not known, or not yet. */
export function useStream(name: string): Stream | undefined {
  return useQuery(streams).data?.find((one) => one.name === name);
}
