import { expect, it } from "vitest";

import { type Frames, placed } from "./frames";
import { frameIn, placeOf } from "./place";

const LEVEL = [0, 1, 2, 1, 2];
const graph = (labels: string[]): Frames =>
  placed({
    labels,
    kinds: labels.map(() => ""),
    label: Int32Array.from(labels, (_, number) => number),
    level: Uint16Array.from(LEVEL),
    value: Float64Array.from([10, 6, 6, 4, 4]),
    self: Float64Array.from([0, 0, 6, 0, 4]),
    other: new Float64Array(),
    unit: "",
    title: "",
    samples: "",
    cut: 0,
    complete: "true",
  });

it("a frame is found again by the names from the root to it, wherever it is in a later answer", () => {
  const [before, after] = [graph(["all", "main", "work", "idle", "wait"]), graph(["all", "idle", "wait", "main", "work"])];
  expect([1, 2, 3, 4].map((index) => frameIn(before, placeOf(before, index)))).toEqual([1, 2, 3, 4]);
  expect([1, 2, 3, 4].map((index) => frameIn(after, placeOf(before, index)))).toEqual([3, 4, 1, 2]);
});

it("the place of a frame that is not there any more is the whole graph", () => {
  const frames = graph(["all", "main", "work", "idle", "wait"]);
  for (const place of [undefined, "", "0", placeOf(graph(["all", "main", "other", "idle", "wait"]), 2)]) expect(frameIn(frames, place)).toBe(0);
});
