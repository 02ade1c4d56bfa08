import { msg } from "@lingui/core/macro";

import { SubjectScreen } from "../subject/screen";
import type { Source, Subject } from "../subject/subject";
import { Copies } from "./copies";
import { Devices } from "./devices";
import { Memory } from "./memory";

const ofLaunches = (by: string, cell?: string): Source[] => [
  { stream: "cuda_launch", by, cell, where: "nested = 0" },
  { stream: "cuda_launch_summary", by, cell, where: "nested = 0" },
];
const ofCalls = (cell?: string): Source[] => ["cuda_call", "cuda_call_summary"].map((stream) => ({ stream, by: "function", cell }));
const ofDevices = (cell: string): Source[] => [{ stream: "gpu", by: "machine,device", cell }];

const GPU: Subject = {
  title: msg`GPU`,
  meaning: msg`how busy GPUs are, who holds their memory, and what is launched and copied`,
  probe: "cuda",
  streams: ["cuda_launch", "cuda_call", "cuda_launch_summary", "cuda_call_summary"],
  lines: [
    [{ show: "own", part: Devices }],
    [
      { show: "lines", title: msg`How busy each GPU is`, of: ofDevices("mean(gpu_percent)") },
      { show: "lines", title: msg`Memory used of each GPU`, of: ofDevices("max(memory_used_bytes)") },
      { show: "lines", title: msg`Power of each GPU`, of: ofDevices("mean(power_watts)") },
    ],
    [
      {
        show: "lines",
        title: msg`Memory that programs hold`,
        of: [
          { stream: "cuda_memory", by: "comm,pid,memory", cell: "max(live_bytes)" },
          { stream: "gpu_process", by: "comm,pid,device", cell: "max(used_bytes)" },
        ],
        stacked: true,
      },
      { show: "lines", title: msg`Bytes copied by direction`, of: [{ stream: "cuda_call", by: "kind", cell: "sum(bytes)", where: "kind is not null and nested = 0" }], stacked: true },
    ],
    [{ show: "own", part: Memory }],
    [
      { show: "top", title: msg`Kernels by time of their launches`, of: ofLaunches("kernel") },
      { show: "top", title: msg`Launches by kind of kernel`, of: ofLaunches("category", "count") },
      { show: "lines", title: msg`Launches a second by kind of kernel`, of: ofLaunches("category", "count"), stacked: true },
    ],
    [{ show: "own", part: Copies }, { show: "top", title: msg`Waits for the device`, of: [{ stream: "cuda_call", by: "function", cell: "sum(wait_ns)" }] }],
    [
      { show: "top", title: msg`Calls by time`, of: ofCalls() },
      { show: "top", title: msg`Calls that failed`, of: ofCalls("failed") },
    ],
    [{ show: "slowest", title: msg`Slowest calls`, of: [{ stream: "cuda_call" }] }],
    [{ show: "flame", title: msg`Launches, by stack`, of: [{ stream: "cuda_launch" }] }],
  ],
};

/** GPUs: how busy, who holds their memory, what is launched and copied, what failed. */
export function Gpu() {
  return <SubjectScreen of={GPU} />;
}
