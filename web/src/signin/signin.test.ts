import { expect, it } from "vitest";

import { within } from "./next";

it("after signing in, no address outside this console is opened", () => {
  expect(within("/explore/syscall?since=5m")).toBe("/explore/syscall?since=5m");
  for (const next of [undefined, "", "https://example.org", "//example.org", "/\\example.org", "javascript:alert(1)", "/sign-in?next=/"]) {
    expect(within(next)).toBe("/");
  }
});
