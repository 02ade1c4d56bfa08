import { msg } from "@lingui/core/macro";

import { SubjectScreen } from "../subject/screen";
import type { Subject } from "../subject/subject";

const CALLS = ["python_call", "python_call_summary"];
const IN_PYTHON = "python is not null";
const OF_SAMPLES = ["python_sample", "python_sample_summary"].map((stream) => ({ stream, by: "python" }));
const ofCalls = (by: string, cell?: string, where?: string) => CALLS.map((stream) => ({ stream, by, cell, where }));

const PYTHON: Subject = {
  title: msg`Python`,
  meaning: msg`functions, what they call, and where they wait`,
  probe: "python",
  streams: [...CALLS, "python_sample", "python_sample_summary"],
  lines: [
    [
      { show: "lines", title: msg`Own time by function`, of: [...ofCalls("function", "sum(self_ns)"), ...OF_SAMPLES], stacked: true },
      { show: "lines", title: msg`Calls a second by program`, of: ofCalls("comm", "count") },
    ],
    [
      { show: "top", title: msg`Functions by own time`, of: [...ofCalls("function", "sum(self_ns)"), ...OF_SAMPLES] },
      { show: "top", title: msg`Functions by time with callees`, of: ofCalls("function") },
      { show: "top", title: msg`Functions by calls`, of: ofCalls("function", "count") },
    ],
    [
      { show: "top", title: msg`Files by own time`, of: ofCalls("file", "sum(self_ns)") },
      { show: "top", title: msg`Lines by time on a CPU`, of: ["profile", "profile_summary"].map((stream) => ({ stream, by: "python", where: IN_PYTHON })) },
      { show: "top", title: msg`Functions that raised`, of: [{ stream: "python_call", by: "function", cell: "count", where: "ended = 'raised'" }] },
    ],
    [{ show: "slowest", title: msg`Slowest calls`, of: [{ stream: "python_call" }] }],
    [
      {
        show: "flame",
        title: msg`Time on a CPU, by Python stack`,
        of: [
          { stream: "python_sample" },
          { stream: "python_sample_summary" },
          { stream: "profile", where: IN_PYTHON },
          { stream: "profile_summary", where: IN_PYTHON },
        ],
      },
    ],
  ],
};

/** Programs in Python. */
export function Python() {
  return <SubjectScreen of={PYTHON} />;
}
