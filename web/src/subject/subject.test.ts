import { expect, it } from "vitest";

import { chosen } from "./subject";

it("the first source that is recorded is chosen, and the best one if none is", () => {
  const of = [{ stream: "syscall" }, { stream: "syscall_summary" }];
  expect(chosen(of, new Set(["syscall_summary"]))?.stream).toBe("syscall_summary");
  expect(chosen(of, new Set(["syscall_summary", "syscall"]))?.stream).toBe("syscall");
  expect(chosen(of, new Set())?.stream).toBe("syscall");
  expect(chosen([], new Set())).toBeUndefined();
});
