import { expect, test } from "vitest";

import { runningOf } from "./running";

const row = (pid: number, time: string, on_cpu_ns: number) => ({ pid, start_ns: 7, comm: "cat", hostname: "one", interval_ns: 5e9, on_cpu_ns, run_queue_ns: 0, time });
const rows = [row(11, "2026-01-01T12:00:10Z", 1e9), row(13, "2026-01-01T12:00:10Z", 4e9), row(13, "2026-01-01T12:00:05Z", 2e9)];

test("rows of a process are added up, and the busiest process comes first", () => {
  const { all, since } = runningOf(rows, false);
  expect(all.map((one) => [one.pid, one.onCpu])).toEqual([[13, 0.6], [11, 0.2]]);
  expect(since).toBeUndefined();
});

test("rows that are not read are told", () => {
  expect(runningOf(rows, true).since).toBe("2026-01-01T12:00:05Z");
  expect(runningOf([], false).since).toBeUndefined();
});
