import { useQueries, useQuery } from "@tanstack/react-query";

import { api, data } from "../api/client";
import type { components } from "../api/schema";
import { type Asked, useAllAsked, useAsked } from "./asked";
import { step } from "./times";

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
  /** The series only counts rows, and may have steps below a minute. */
  fine?: boolean;
  /** A condition beside the page's filter. */
  where?: string;
  /** The name of its card; none: that of the stream. */
  card?: string;
  /** Of the whole window, with the selection as a part of it; none: a series is. */
  whole?: boolean;
  /** None: that of the page. */
  machine?: string;
}

function query({ stream, cells = ["count"], by = [], top = 10, series = false, fine = false }: Wanted, of: Asked, enabled = true) {
  return {
    queryKey: ["totals", cells, by, top, series, fine, ...of.key],
    queryFn: ({ signal }: { signal: AbortSignal }) => {
      const every = series ? step(of.times(), fine) : undefined;
      const given = { ...of.now(), by: by.join(",") || undefined, cells: cells.join(","), top, every };
      return data(api.GET("/api/v1/aggregates/{stream}", { params: { path: { stream }, query: given }, signal }));
    },
    enabled: enabled && of.ready,
    refetchInterval: of.live ? 10_000 : (false as const),
    placeholderData: (before: Totals | undefined) => before,
  };
}

/** The top groups of a stream in the page's window. */
export function useTotals(wanted: Wanted, enabled = true) {
  const { stream, card, where: own, series = false, whole = series, machine } = wanted;
  return useQuery(query(wanted, useAsked(stream, { card, own, whole, machine }), enabled));
}

/** Rows of several streams over the page's window. With `all`, also those that the filter leaves out. */
export function useAllTotals(names: string[], { series = false, all = false }: { series?: boolean; all?: boolean }) {
  const asked = useAllAsked(names, { whole: true, all });
  return useQueries({ queries: asked.map((of, number) => query({ stream: names[number] ?? "", top: 1, series, fine: true }, of)) });
}
