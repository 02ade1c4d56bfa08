import { expect, it } from "vitest";

import { readSelection, selecting, step, timesOf, writeSelection } from "./times";

const NOW = new Date("2026-01-31T12:00:00Z");

it("a length ends now, fixed times stay, and nonsense is the last hour", () => {
  expect(timesOf({ since: "15m" }, NOW).since).toEqual(new Date("2026-01-31T11:45:00Z"));
  const fixed = { since: "2026-01-30T00:00:00Z", until: "2026-01-31T00:00:00Z" };
  expect(timesOf(fixed, NOW)).toEqual({ since: new Date(fixed.since), until: new Date(fixed.until) });
  for (const since of ["", "0m", "tomorrow", "2027-01-01T00:00:00Z"]) {
    expect(timesOf({ since }, NOW)).toEqual({ since: new Date("2026-01-31T11:00:00Z"), until: NOW });
  }
});

it("a selection survives the address", () => {
  const selection = { stream: "syscall", since: new Date(NOW.getTime() - 1000), until: NOW, least: 5, most: undefined };
  expect(readSelection(writeSelection(selection))).toEqual(selection);
  expect(readSelection("nonsense")).toBeUndefined();
});

it("a selection becomes a filter within the page's", () => {
  const selection = { stream: "syscall", since: NOW, until: NOW, least: 1024, most: 2048 };
  expect(selecting(selection, "duration_ns", "a = 1 or b = 2")).toBe("(a = 1 or b = 2) and duration_ns >= 1024 and duration_ns < 2048");
  expect(selecting(selection, undefined, undefined)).toBeUndefined();
});

it("a series has a readable number of points", () => {
  for (const hours of [150 / 3600, 0.25, 0.5, 1, 6, 24, 24 * 7, 24 * 30]) {
    const points = (hours * 3600) / { "5s": 5, "15s": 15, "1m": 60, "5m": 300, "15m": 900, "1h": 3600, "6h": 21_600, "1d": 86_400 }[step({ since: new Date(NOW.getTime() - hours * 3.6e6), until: NOW }, true)];
    expect(points).toBeGreaterThanOrEqual(30);
    expect(points).toBeLessThanOrEqual(200);
  }
  expect(step({ since: new Date(NOW.getTime() - 150_000), until: NOW })).toBe("1m"); // of what has no rollups of seconds
});
