import { describe, expect, it } from "vitest";

import { placed, type Process, seen } from "./tree";

const process = (pid: number, parent: number | null, start = pid) =>
  ({ pid, start_ns: start, parent_pid: parent, parent_start_ns: parent, comm: `c${pid}` }) as Process;
const ALL = [process(1, null), process(2, 1), process(3, 1), process(4, 2), process(5, 9)];
const told = (tree: ReturnType<typeof placed>) => tree.map((one) => [one.process.pid, one.depth]);

describe("a tree of processes", () => {
  it("has each process below its parent, and one whose parent is not listed at the top", () => {
    expect(told(placed(ALL))).toEqual([[1, 0], [2, 1], [4, 2], [3, 1], [5, 0]]); // prettier-ignore
    expect(placed(ALL).map((one) => one.below)).toEqual([3, 1, 0, 0, 0]);
  });
  it("tells processes with the same pid apart", () => {
    const again = [process(1, null), process(1, null, 7), { ...process(8, 1), parent_start_ns: 7 }];
    expect(told(placed(again))).toEqual([[1, 0], [1, 0], [8, 1]]); // prettier-ignore
    expect(placed(again).map((one) => one.below)).toEqual([0, 1, 0]);
  });
  it("keeps the ancestors of what is searched, and hides what is below a closed one", () => {
    expect(told(seen(placed(ALL), new Set(), (one) => one.pid === 4))).toEqual([[1, 0], [2, 1], [4, 2]]); // prettier-ignore
    expect(told(seen(placed(ALL), new Set(["2 2"]), () => true))).toEqual([[1, 0], [2, 1], [3, 1], [5, 0]]); // prettier-ignore
  });
});
