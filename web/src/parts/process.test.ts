import { expect, it } from "vitest";

import { named, rowsOf } from "./process";

it("an address names a process by its pid and its start", () => {
  expect(named(7, 500)).toEqual({ pid: "7", start: "500" });
  expect(named(7, null)).toEqual({ pid: "7", start: undefined });
});

it("a start that a browser rounds still finds its rows, and no other process's", () => {
  expect(rowsOf(7, 500)).toBe("pid = 7 and start_ns = 500");
  const stored = 2n ** 53n + 1n;
  const [, least, most] = /start_ns >= (\d+) and start_ns <= (\d+)/.exec(rowsOf(7, Number(stored))) ?? [];
  expect(BigInt(least ?? 0) <= stored && stored <= BigInt(most ?? 0)).toBe(true);
  expect(BigInt(most ?? 0) - BigInt(least ?? 0)).toBeLessThan(2000n);
});
