import { useLingui } from "@lingui/react/macro";
import { useMemo } from "react";

import { useStream } from "../api/catalogue";
import { useTotals } from "../parts/series";

export const WHOLE = "sum(duration_ns)";
const MOST = 18; // cells besides these two that the API computes at once
// Sums of other columns, parts of several, or another thread's time: without them, columns add up to the token's time.
const APART = ["ktime_ns", "start_ns", "interval_ns", "duration_ns", "decode_ns", "wait_ns", "outside_ns", "on_cpu_ns", "page_fault_ns", "others_run_queue_ns"];

/** A part of a token's time: a column of durations. */
export interface Part {
  name: string;
  meaning: string;
  cell: string;
}

/** The times of tokens in the window, and their parts, the largest first: those that some token has. */
export function useTokenTime() {
  const { t } = useLingui();
  const stream = useStream("llama_token");
  const columns = useMemo(
    () => (stream?.columns ?? []).filter((one) => one.unit === "ns" && !APART.includes(one.name)).slice(0, MOST),
    [stream],
  );
  const cells = ["count", WHOLE, ...columns.map((one) => `sum(${one.name})`)];
  const found = useTotals({ stream: "llama_token", cells, top: 1, series: true, where: "draft = 0", card: t`Where the time of a token goes` }, columns.length > 0);
  const values = found.data?.groups[0]?.values;
  const parts = useMemo(() => {
    const all: Part[] = columns.map(({ name, meaning }) => ({ name, meaning, cell: `sum(${name})` }));
    const size = (part: Part) => Number(values?.[part.cell] ?? 0);
    return all.filter((part) => size(part) > 0).sort((one, other) => size(other) - size(one));
  }, [columns, values]);
  return { found, parts };
}
