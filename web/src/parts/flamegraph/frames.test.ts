import { expect, it } from "vitest";

import { frameAt, HIGH, tooNarrow, type View } from "./draw";
import { placed, sibling, weightOf } from "./frames";
import { functions } from "./functions";
import { below, inverted } from "./turned";

/** all: a (10) calls b (6) twice removed; c (4) calls b (3). */
const NAMES = ["all", "a", "b", "c"];
const frames = placed({
  labels: NAMES,
  kinds: NAMES.map(() => "user"),
  label: Int32Array.from([0, 1, 2, 3, 2]),
  level: Uint16Array.from([0, 1, 2, 1, 2]),
  value: Float64Array.from([14, 10, 6, 4, 3]),
  self: Float64Array.from([0, 4, 6, 1, 3]),
  other: new Float64Array(),
  cut: 0,
  unit: "ns",
  title: "",
  samples: "",
  complete: "true",
});
const named = (of: typeof frames) => [...of.label].map((label, index) => `${of.level[index]} ${NAMES[label]} ${of.value[index]}`);

it("frames lie below their callers, side by side", () => {
  expect([...frames.parent]).toEqual([-1, 0, 1, 0, 3]);
  expect([...frames.start]).toEqual([0, 0, 0, 10, 10]);
});

it("each frame knows its end, and each level its frames", () => {
  expect([...frames.end]).toEqual([5, 3, 3, 5, 5]);
  expect([...frames.byLevel]).toEqual([0, 1, 3, 2, 4]);
  expect([...frames.levelAt]).toEqual([0, 1, 3, 5]);
});

it("a frame is found by its place, and beside it the next one below the same frame", () => {
  const view: View = { zoom: 0, top: 0, width: 140, height: 100, dark: false };
  const at = (x: number, level: number) => frameAt(frames, view, x, level * HIGH + 1);
  expect([at(5, 0), at(5, 1), at(99, 1), at(101, 1), at(59, 2), at(61, 2), at(129, 2), at(131, 2), at(5, 3)]).toEqual([0, 1, 1, 3, 2, -1, 4, -1, -1]);
  expect([sibling(frames, 1, 1), sibling(frames, 3, -1), sibling(frames, 3, 1), sibling(frames, 2, 1)]).toEqual([3, 1, 3, 2]);
  expect(frameAt(frames, { ...view, zoom: 3 }, 139, 0)).toBe(0);
});

it("what matches is added up once a stack, and narrow frames are counted", () => {
  expect(weightOf(frames, Uint8Array.from([0, 1, 1, 0]))).toBe(13);
  expect(tooNarrow(frames, 0, 4)).toBe(1);
});

it("what is too small to be seen is not followed further, and counted", () => {
  const large = placed({ ...frames, value: Float64Array.from([1e7, 1e7 - 4, 6, 4, 3]), self: Float64Array.from([0, 1e7 - 10, 6, 1, 3]) });
  const turned = inverted(large);
  expect(named(turned)).toEqual(["0 all 10000000", "1 a 9999990", "1 b 9", "1 c 1"]);
  expect(turned.cut).toBe(1);
});

it("inverted, callers lie below what they call, and nothing is lost", () => {
  expect(named(inverted(frames))).toEqual(["0 all 14", "1 b 9", "2 a 6", "2 c 3", "1 a 4", "1 c 1"]);
});

it("a sandwich has all callers and all callees of a function", () => {
  expect(named(inverted(frames, 2))).toEqual(["0 all 9", "1 b 9", "2 a 6", "2 c 3"]);
  expect(named(below(frames, 3))).toEqual(["0 all 4", "1 c 4", "2 b 3"]);
});

it("functions are added up over the whole graph", () => {
  expect(functions(frames)[0]).toEqual({ label: 2, total: 9, self: 9 });
});
