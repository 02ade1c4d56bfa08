import { expect, test } from "vitest";

import { askedOf, readRequest, whyOf } from "./request";

const ROW = { time: "2026-01-31T12:00:00.123999789Z", pid: 4711, machine_id: "m" };

test("a row is named in an address, and asked for by its microsecond", () => {
  const address = whyOf("llama_request", ROW);
  expect(address).toEqual({ request: "llama_request~2026-01-31T12:00:00.123999789Z~4711", machine: "m" });
  const named = readRequest(address?.request);
  expect(named && askedOf(named)).toEqual({
    stream: "llama_request",
    where: "pid = 4711",
    since: "2026-01-31T12:00:00.123999Z",
    until: "2026-01-31T12:00:00.124000Z",
  });
});

test("times without a fraction, and at the end of a second", () => {
  const asked = (time: string) => askedOf({ stream: "s", time, pid: 1 });
  expect(asked("2026-01-31T12:00:00Z").since).toBe("2026-01-31T12:00:00.000000Z");
  expect(asked("2026-01-31T12:00:00.9999999Z").until).toBe("2026-01-31T12:00:01.000000Z");
});

test("what names no row", () => {
  expect(whyOf("packet", { ...ROW, pid: null })).toBeUndefined();
  for (const text of [undefined, "", "a~b~c", "llama_request~2026-01-31T12:00:00Z", "s~never~7"]) expect(readRequest(text)).toBeUndefined();
});
