import { expect, it } from "vitest";

import { keeping, reads, type Search } from "./search";

/** The address after a link that says this, on a page with that address. */
const after = (before: Search, said: Search) => keeping({ search: before, next: () => said } as Parameters<typeof keeping>[0]);
const BAR: Search = { since: "1h", until: undefined, machine: "m", where: "pid = 7", brushed: "a~b~~~syscall" };

it("a link to another screen keeps what the bar says, and nothing else", () => {
  expect(after({ ...BAR, view: "live" }, {})).toEqual(BAR);
});

it("a link may change what the bar says, and removes what it names as undefined", () => {
  expect(after(BAR, { machine: "n" })).toEqual({ ...BAR, machine: "n" });
  expect(after(BAR, { where: undefined })).toEqual({ ...BAR, where: undefined });
});

it("a selection ends with its window, unless a link brings its own", () => {
  expect(after(BAR, { since: "5m" })).toEqual({ ...BAR, since: "5m", brushed: undefined });
  expect(after(BAR, { ...BAR, since: "5m" })).toEqual({ ...BAR, since: "5m", brushed: undefined });
  expect(after(BAR, { since: "5m", brushed: "c~d~~~exec" })).toEqual({ ...BAR, since: "5m", brushed: "c~d~~~exec" });
});

it("a route has its own parameters and those of the bar, as texts, and no others", () => {
  const { validateSearch, search } = reads("pid", "find");
  expect(validateSearch({ pid: 7, find: "a", view: "live", where: "pid = 7", since: ["1h"] })).toEqual({ pid: "7", find: "a", where: "pid = 7" });
  const [only] = search.middlewares;
  expect(only?.({ search: {}, next: () => ({ ...BAR, pid: "7", view: "live" }) } as Parameters<typeof keeping>[0])).toEqual({ ...BAR, pid: "7" });
});
