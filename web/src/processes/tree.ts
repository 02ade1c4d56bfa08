import type { components } from "../api/schema";

export type Process = components["schemas"]["Process"];

/** A process at its place in the tree. */
export interface Placed {
  process: Process;
  key: string;
  depth: number;
  /** Number of processes below it. */
  below: number;
}

/** The processes, each followed by its children, those that began first before others. */
export function placed(all: Process[]): Placed[] {
  const known = new Set(all.map(keyOf));
  const children = new Map<string, Process[]>();
  for (const one of all) {
    const parent = parentOf(one);
    const at = parent !== undefined && known.has(parent) ? parent : "";
    children.set(at, [...(children.get(at) ?? []), one]);
  }
  const found: Placed[] = [];
  const place = (parent: string, depth: number) => {
    for (const process of children.get(parent) ?? []) {
      const key = keyOf(process);
      const one = { process, key, depth, below: 0 };
      found.push(one);
      const before = found.length;
      place(key, depth + 1);
      one.below = found.length - before;
    }
  };
  place("", 0);
  return found;
}

/** The part of a tree that is seen: without what is below closed processes, and with the ancestors of what is searched. */
export function seen(tree: Placed[], closed: ReadonlySet<string>, matches: (process: Process) => boolean): Placed[] {
  const kept = tree.map((one) => matches(one.process));
  for (let number = tree.length - 1; number >= 0; number -= 1) {
    const below = tree[number]?.below ?? 0;
    if (kept.slice(number + 1, number + 1 + below).includes(true)) kept[number] = true;
  }
  const found: Placed[] = [];
  for (let number = 0; number < tree.length; number += 1) {
    const one = tree[number];
    if (!one || !kept[number]) continue;
    found.push(one);
    if (closed.has(one.key)) number += one.below;
  }
  return found;
}

function keyOf(one: Process): string {
  return `${one.pid} ${one.start_ns}`;
}

/** Its parent's key; undefined: that is not listed. A parent began before its child, so that there are no circles. */
function parentOf(one: Process): string | undefined {
  return one.parent_start_ns === null ? undefined : `${one.parent_pid} ${one.parent_start_ns}`;
}
