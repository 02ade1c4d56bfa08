import { expect, it } from "vitest";

import { linesOf, rest } from "./points";

const at = (minute: number) => `2026-01-31T12:0${minute}:00Z`;
const group = (...points: [number, number][]) => ({ key: {}, values: {}, points: points.map(([minute, count]) => ({ time: at(minute), values: { count } })) });

it("a step between others that has no rows is 0", () => {
  const { times, lines } = linesOf([{ name: "a", cell: "count", group: group([0, 60], [3, 120]) }], 60, 1 / 60);
  expect(times.map((time) => time - (times[0] ?? 0))).toEqual([0, 60, 120, 180]);
  expect(lines).toEqual([{ label: "a", values: [1, 0, 0, 2] }]);
  const unknown = linesOf([{ name: "a", cell: "count", group: group([0, 1], [2, 2]) }], 60, 1, null);
  expect(unknown.lines[0]?.values).toEqual([1, null, 2]);
  expect(linesOf([], 60)).toEqual({ times: [], lines: [] });
});

it("what no group has is the rest of the whole", () => {
  const [others] = rest([group([0, 5]), group([0, 1], [1, 3])], group([0, 7], [1, 3], [2, 4]), "count", "others");
  expect(others?.group.points.map((point) => point.values.count)).toEqual([1, 0, 4]);
  expect(rest([group([0, 7])], group([0, 7]), "count", "others")).toEqual([]);
});
