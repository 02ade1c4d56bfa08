import { quoted } from "../parts/command";

interface Chosen {
  since: string;
  until: string;
  /** Hostnames or ids, separated by commas; none: all. */
  machine?: string;
  task?: string;
}

/** The command that writes the same trace. */
export function commandOf(streams: string[], { since, until, machine, task }: Chosen): string {
  const only = [...(machine ? ["--node", machine] : []), ...(task ? ["--task", task] : [])];
  return ["scope", "export", ...streams, "--perfetto", "scope.pftrace", ...only, "--since", since, "--until", until].map(quoted).join(" ");
}
