/** A process's time on a CPU in a window. */
export interface Ran {
  pid: number;
  comm: string;
  ns: number;
}

/** A process's shares of a CPU. */
export interface Shares {
  pid: number;
  comm: string;
  inside: number;
  /** Undefined: not known. */
  outside?: number;
}

/** What ran in a part of a window, by how much more it ran there than in the rest: first what was not there before. */
export function meanwhile(part: Ran[], partNs: number, whole: Ran[], wholeNs: number): Shares[] {
  const keyOf = ({ pid, comm }: Ran) => `${pid} ${comm}`;
  const all = new Map(whole.map((one) => [keyOf(one), one.ns]));
  const shares = part.map((one) => {
    const total = all.get(keyOf(one));
    const outside = total === undefined ? undefined : Math.max(0, total - one.ns) / Math.max(1, wholeNs - partNs);
    return { pid: one.pid, comm: one.comm, inside: one.ns / partNs, outside };
  });
  const more = ({ inside, outside = inside }: Shares) => inside - outside;
  return shares.sort((one, other) => more(other) - more(one));
}
