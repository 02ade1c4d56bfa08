import { expect, test } from "vitest";

import { rowsOf } from "./rowsof";

const EARLY = { started: "2026-11-27T10:00:00Z", ended: "2026-11-27T10:05:00Z" };
const LATE = { started: "2026-11-27T11:00:00Z", ended: "2026-11-27T11:05:00Z" };
const ANY = { where: undefined, machine: undefined, brushed: undefined };

test("a task's rows are those between its first begin and its last end, whatever was chosen before", () => {
  const found = rowsOf({ task_id: "7", wanted: false, runs: [LATE, EARLY, { started: null, ended: null }] });
  expect(found).toStrictEqual({ task: "7", since: EARLY.started, until: LATE.ended, ...ANY });
});

test("those of a task that is wanted go on until now", () => {
  const found = rowsOf({ task_id: "7", wanted: true, runs: [EARLY, { ...LATE, ended: null }] });
  expect(found).toStrictEqual({ task: "7", since: EARLY.started, until: undefined, ...ANY });
});
