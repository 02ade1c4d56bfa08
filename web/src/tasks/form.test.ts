import { expect, it } from "vitest";

import { readForm, writeForm } from "./form";

it("a form survives the address", () => {
  const form = { target: { pid: 7, comm: "a b", exe: undefined, cgroup: undefined, container: "c" }, options: { mode: "summary", interval_ms: 500, only: ["x", "y"], all: true }, duration: "77" };
  expect(readForm(writeForm(form))).toEqual(form);
});

it("an empty form leaves nothing in the address, and options that are none are left out", () => {
  const empty = readForm({});
  expect(Object.values(writeForm(empty)).every((one) => one === undefined)).toBe(true);
  for (const options of ["{", "7", "[1]", "null"]) expect(readForm({ options })).toEqual(empty);
});
