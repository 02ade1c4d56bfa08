export interface Process {
  pid: number;
  /** Its `start_ns`. */
  start: number;
  comm: string;
  hostname: string;
  onCpu: number;
  waiting: number;
}

/** The processes that ran in the last seconds, busiest first, with their shares of a CPU. */
export interface Running {
  all: Process[];
  /** Those that ran only before are not among them: there are too many rows. None: nothing is left out. */
  since?: string;
}

export interface Row {
  pid: number | null;
  start_ns: number;
  comm: string;
  hostname: string;
  interval_ns: number;
  on_cpu_ns: number;
  run_queue_ns: number;
  time: string;
}

/** What rows of the stream, the newest first, tell; whether there are more. */
export function runningOf(rows: Row[], more: boolean): Running {
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
  const all = [...found.values()]
    .map(({ time, ...one }) => ({ ...one, onCpu: one.onCpu / Math.max(1, time), waiting: one.waiting / Math.max(1, time) }))
    .sort((one, other) => other.onCpu - one.onCpu);
  return { all, since: more ? rows.at(-1)?.time : undefined };
}
