import { expect, it } from "vitest";

import cases from "../../../tests/filter_cases.json";
import { filterOf, isWhole, lacking, read } from "./grammar";

const columns = ["comm", "pid", "duration_ns"].map((name) => ({ name, unit: name.endsWith("_ns") ? "ns" : "" }));
const stream = { columns, of_process: [{ name: "container" }] };

it("a filter applies to a stream that has all of its columns, also without their units", () => {
  for (const where of ["pid = 7", "container = 'c'", "duration > 1ms and not (comm = 'a' or pid in (1, 2))"]) expect(filterOf({ where }, stream)).toBe(where);
});

it("a filter does not apply to a stream that lacks a column, and it is known which", () => {
  expect(filterOf({ where: "pid = 7 and request = 3" }, stream)).toBeUndefined();
  expect(lacking("request = 3 or token > 1 or request = 4", stream)).toEqual(["request", "token"]);
});

it("what is no whole filter applies to nothing", () => {
  for (const where of ["pid", "pid = ", "pid = 7 and", "(pid = 7", "comm = 'a", "pid = 7)"]) expect(filterOf({ where }, stream)).toBeUndefined();
});

it("a filter is whole, or wrong at the same character, as for the server", () => {
  for (const text of cases.wholes) expect(isWhole(read(text)), text).toBe(true);
  for (const { text, place } of cases.faults) {
    const found = read(text);
    expect([isWhole(found), found.wrong ?? text.trimEnd().length], text).toEqual([false, place]);
  }
});
