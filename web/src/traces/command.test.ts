import { expect, it } from "vitest";

import { commandOf } from "./command";

it("the command writes the same trace: of the same machines and the same task", () => {
  const times = { since: "2026-01-31T12:00:00Z", until: "2026-01-31T13:00:00Z" };
  const rest = "--perfetto scope.pftrace";
  const window = "--since 2026-01-31T12:00:00Z --until 2026-01-31T13:00:00Z";
  expect(commandOf(["exec"], times)).toBe(`scope export exec ${rest} ${window}`);
  expect(commandOf(["exec", "net"], { ...times, machine: "one,two", task: "7" })).toBe(`scope export exec net ${rest} --node one,two --task 7 ${window}`);
});
