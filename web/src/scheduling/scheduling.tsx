import { msg } from "@lingui/core/macro";

import { SubjectScreen } from "../subject/screen";
import type { Source, Subject } from "../subject/subject";

const ofPrograms = (cell: string): Source[] => [
  { stream: "sched_process_summary", by: "comm", cell },
  { stream: "sched_summary", by: "comm", cell },
  { stream: "switch", by: "comm", cell },
];
const ofSwitches = (by: string, cell?: string, where?: string): Source[] => [{ stream: "switch", by, cell, where }];

const SCHEDULING: Subject = {
  title: msg`Scheduling`,
  meaning: msg`who runs on the CPUs, who waits for one, and who wakes whom`,
  probe: "sched",
  streams: ["switch", "sched_summary", "sched_process_summary"],
  lines: [
    [
      { show: "lines", title: msg`CPUs used by program`, of: ofPrograms("sum(on_cpu_ns)"), stacked: true },
      { show: "lines", title: msg`Waiting for a CPU by program`, of: ofPrograms("sum(run_queue_ns)"), stacked: true },
    ],
    [
      { show: "top", title: msg`Time on a CPU`, of: ofPrograms("sum(on_cpu_ns)") },
      { show: "top", title: msg`Waiting for a CPU`, of: ofPrograms("sum(run_queue_ns)") },
      { show: "top", title: msg`Threads by time on a CPU`, of: [{ stream: "sched_summary", by: "thread_comm" }] },
    ],
    [
      { show: "top", title: msg`Time on each CPU`, of: ofSwitches("cpu", "sum(on_cpu_ns)") },
      { show: "top", title: msg`Switches by program`, of: ofSwitches("comm", "count") },
      { show: "top", title: msg`Lost the CPU while runnable`, of: ofSwitches("comm", "count", "involuntary = 1") },
      { show: "top", title: msg`Took the CPU from a runnable thread`, of: ofSwitches("next_comm", "count", "involuntary = 1") },
      { show: "top", title: msg`Wakers`, of: ofSwitches("waker_comm", "count", "waker_comm is not null") },
      { show: "top", title: msg`CPUs by time waited for them`, of: ofSwitches("cpu", "sum(run_queue_ns)") },
    ],
    [{ show: "slowest", title: msg`Longest waits for a CPU`, of: [{ stream: "switch" }] }],
  ],
};

/** Who runs on the CPUs, and who waits for one. */
export function Scheduling() {
  return <SubjectScreen of={SCHEDULING} />;
}
