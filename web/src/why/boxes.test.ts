import { expect, test } from "vitest";

import { boxes } from "./boxes";

const LANES = [
  { tid: 7, name: "a", on_cpu_ns: [60, 0], run_queue_ns: [0, 25], blocked_ns: [40, 0] },
  { tid: 8, name: null, on_cpu_ns: [0, 100], run_queue_ns: [0, 0], blocked_ns: [0, 0] },
];

test("parts are stacked in their lane; what is unknown is left free", () => {
  const lane = { height: 20, gap: 4 };
  expect(boxes(LANES, 100, 300, lane)).toEqual([
    { kind: "blocked", x: 0, y: 12, width: 150, height: 8 },
    { kind: "cpu", x: 0, y: 0, width: 150, height: 12 },
    { kind: "queue", x: 150, y: 15, width: 150, height: 5 },
    { kind: "cpu", x: 150, y: 24, width: 150, height: 20 },
  ]);
});
