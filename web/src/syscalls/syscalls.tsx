import { msg } from "@lingui/core/macro";

import { SubjectScreen } from "../subject/screen";
import type { Subject } from "../subject/subject";

const CALLS = ["syscall", "syscall_summary"];
const ofCalls = (by: string, cell?: string) => CALLS.map((stream) => ({ stream, by, cell }));
const ofFiles = (cell: string) => [{ stream: "file_summary", by: "path", cell }];

const SYSCALLS: Subject = {
  title: msg`Syscalls and files`,
  meaning: msg`what programs ask of the kernel, and which files they use`,
  probe: "syscalls",
  streams: [...CALLS, "open", "file_op", "file_summary"],
  lines: [
    [
      { show: "lines", title: msg`Calls a second by name`, of: ofCalls("name", "count"), stacked: true },
      { show: "lines", title: msg`Failed calls a second by name`, of: ofCalls("name", "failed"), stacked: true },
    ],
    [
      { show: "top", title: msg`Calls by time`, of: ofCalls("name") },
      { show: "top", title: msg`Calls by number`, of: ofCalls("name", "count") },
      { show: "top", title: msg`Calls that failed`, of: ofCalls("name", "failed") },
      { show: "top", title: msg`Programs by calls`, of: ofCalls("comm", "count") },
      { show: "top", title: msg`Errors`, of: [{ stream: "syscall", by: "error", cell: "failed" }] },
      { show: "top", title: msg`Files by time of their calls`, of: [{ stream: "syscall", by: "path", where: "path is not null" }] },
    ],
    [
      { show: "top", title: msg`Files by bytes read`, of: ofFiles("sum(read_bytes)") },
      { show: "top", title: msg`Files by bytes written`, of: ofFiles("sum(write_bytes)") },
      { show: "top", title: msg`Files by time of reads`, of: ofFiles("sum(read_ns)") },
      { show: "top", title: msg`Files by time of writes`, of: ofFiles("sum(write_ns)") },
      { show: "top", title: msg`Opened files`, of: [{ stream: "open", by: "path", cell: "count" }] },
      { show: "top", title: msg`Files that could not be opened`, of: [{ stream: "open", by: "path", cell: "failed" }] },
    ],
    [{ show: "slowest", title: msg`Slowest calls`, of: [{ stream: "syscall" }, { stream: "open" }, { stream: "file_op" }] }],
  ],
};

/** Calls of the kernel, and files. */
export function Syscalls() {
  return <SubjectScreen of={SYSCALLS} />;
}
