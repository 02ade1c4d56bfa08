import { expect, test } from "vitest";

import { type Device, latest } from "./latest";

const sample = (uuid: string, gpu_percent: number, time = "2026-01-01T12:00:09Z") => ({ uuid, gpu_percent, time }) as Device;
const samples = [sample("a", 3), sample("b", 5), sample("a", 7, "2026-01-01T12:00:04Z")];

test("each GPU is shown by its newest sample", () => {
  const { devices, since } = latest(samples, ["b", "a"]);
  expect(devices.map((one) => [one.uuid, one.gpu_percent]).sort()).toEqual([["a", 3], ["b", 5]]);
  expect(since).toBeUndefined();
});

test("it is told that GPUs are left out, whose samples are older than those that are read", () => {
  expect(latest(samples, ["a", "b", "c"]).since).toBe("2026-01-01T12:00:04Z");
  expect(latest(samples, undefined).since).toBe("2026-01-01T12:00:04Z");
});
