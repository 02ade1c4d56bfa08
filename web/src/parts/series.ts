import { useQueries, useQuery } from "@tanstack/react-query";

import { api, data } from "../api/client";
import type { components } from "../api/schema";
import { type Search, useAddress } from "./search";
import { asked, isLive, step, timesOf } from "./times";

type Totals = components["schemas"]["Aggregates"];
export type Group = Totals["groups"][number];

export interface Wanted {
  stream: string;
  /** What is computed, the first ranks the groups: `sum(duration_ns)`. */
  cells?: string[];
  by?: string[];
  top?: number;
  /** With a point for each step. */
  series?: boolean;
  where?: string;
}

function query({ stream, cells = ["count"], by = [], top = 10, series = false, where }: Wanted, search: Search) {
  const { since, until, machine, task } = search;
  return {
    queryKey: ["totals", stream, cells, by, top, series, where, since, until, machine, task],
    queryFn: ({ signal }: { signal: AbortSignal }) => {
      const every = series ? step(timesOf(search)) : undefined;
      const given = { ...asked(search), machine, task, where, by: by.join(",") || undefined, cells: cells.join(","), top, every };
      return data(api.GET("/api/v1/aggregates/{stream}", { params: { path: { stream }, query: given }, signal }));
    },
    refetchInterval: isLive(search) ? 10_000 : (false as const),
    placeholderData: (before: Totals | undefined) => before,
  };
}

/** The top groups of a stream in the page's window. */
export function useTotals(wanted: Wanted, enabled = true) {
  const [search] = useAddress();
  return useQuery({ ...query(wanted, search), enabled });
}

/** The same of several streams. */
export function useAllTotals(wanted: Wanted[]) {
  const [search] = useAddress();
  return useQueries({ queries: wanted.map((one) => query(one, search)) });
}
