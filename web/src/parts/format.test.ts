import { expect, it } from "vitest";

import { bytes, cell, cellOf, duration, share, shortName, visible } from "./format";

it("quantities have one unit and three digits", () => {
  expect([0, 999, 1234, 61e9, 2 * 86_400e9].map(duration)).toEqual(["0 ns", "999 ns", "1.23 µs", "1.02 min", "2 d"]);
  expect([0, 1023, 1536, 5 * 2 ** 30].map(bytes)).toEqual(["0 B", "1023 B", "1.50 KiB", "5 GiB"]);
  expect([0, 0.001, 0.5, 1].map(share)).toEqual(["0 %", "0.1 %", "50 %", "100 %"]);
});

it("texts of watched programs cannot turn or hide what is beside them", () => {
  expect(visible("a\u202eb\u200bc\n")).toBe("a\\u202eb\\u200bc\\u000a");
  expect(cell("<b>\u2066")).toBe("<b>\\u2066");
});

it("what was cut of a path or list is marked", () => {
  const of = (value: unknown, cut: unknown) => cellOf({ path: value, path_truncated: cut }, { name: "path", unit: "", hex: false, cut_if: "path_truncated" });
  expect([of("/deep/file", true), of("/file", false), of(["a", "b"], true), of(null, true)]).toEqual([".../deep/file", "/file", "a b ...", "–"]);
  expect(cellOf({ size: 1536 }, { name: "size", unit: "bytes", hex: false, cut_if: null })).toBe("1.50 KiB");
});

it("C++ names lose arguments, and no other name changes", () => {
  expect(shortName("std::vector<int, std::allocator<int>>::push_back(int&&)")).toBe("std::vector<…>::push_back()");
  expect(shortName("(anonymous namespace)::hidden(int*)")).toBe("{anonymous}::hidden()");
  expect(shortName("Thread.run (/usr/lib/python3/threading.py:982)")).toBe("Thread.run");
  expect(shortName("do_syscall_64")).toBe("do_syscall_64");
  expect(shortName("operator<(int)")).toBe("operator<(int)");
});
