import { expect, it } from "vitest";

import { below, functions, inverted, placed } from "./frames";

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
