import { keepPreviousData, queryOptions } from "@tanstack/react-query";

import { api, data } from "../api/client";

const WINDOW_S = 20; // several intervals of a summary of the scheduler
export const STREAM = "sched_process_summary";

export interface Process {
  pid: number;
  /** Its `start_ns`. */
  start: number;
  comm: string;
  hostname: string;
  onCpu: number;
  waiting: number;
}

/** The processes of a machine that ran in the last seconds, busiest first, with their shares of a CPU; with a filter, those that meet it. */
export const processes = (machine: string | undefined, where?: string) =>
  queryOptions({
    queryKey: ["processes", machine, where],
    queryFn: async ({ signal }) => {
      const since = new Date(Date.now() - WINDOW_S * 1000).toISOString();
      const query = { since, machine, where, limit: 1000 };
      const call = api.GET("/api/v1/events/{stream}", { params: { path: { stream: STREAM }, query }, signal });
      return added((await data(call)).events as unknown as Row[]);
    },
    refetchInterval: 5000,
    placeholderData: keepPreviousData,
  });

interface Row {
  pid: number | null;
  start_ns: number;
  comm: string;
  hostname: string;
  interval_ns: number;
  on_cpu_ns: number;
  run_queue_ns: number;
  time: string;
}

function added(rows: Row[]): Process[] {
  const found = new Map<string, Process & { time: number }>();
  for (const row of rows) {
    if (!row.pid) continue;
    const key = `${row.hostname} ${row.pid} ${row.start_ns}`;
    const one = found.get(key) ?? { pid: row.pid, start: row.start_ns, comm: row.comm, hostname: row.hostname, onCpu: 0, waiting: 0, time: 0 };
    one.onCpu += row.on_cpu_ns;
    one.waiting += row.run_queue_ns;
    one.time += row.interval_ns;
    found.set(key, one);
  }
  return [...found.values()]
    .map(({ time, ...one }) => ({ ...one, onCpu: one.onCpu / Math.max(1, time), waiting: one.waiting / Math.max(1, time) }))
    .sort((one, other) => other.onCpu - one.onCpu);
}
