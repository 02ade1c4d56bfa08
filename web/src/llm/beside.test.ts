import { expect, it } from "vitest";

import { around } from "./beside";

const OF = { machine_id: "m", pid: 7, start_ns: 1 };
const http = (name: string, ktime_ns: number, duration_ns: number, more = {}) => ({ ...OF, name, ktime_ns, duration_ns, ...more });
const request = { ...OF, ktime_ns: 100, duration_ns: 50 };

it("the shortest request over HTTP that contains it is around a request, of the same process only", () => {
  const all = [http("front", 80, 100), http("runner", 90, 70), http("later", 110, 100), http("other", 95, 60, { pid: 8 }), http("reused", 95, 60, { start_ns: 2 })];
  expect(around(request, all)?.name).toBe("runner");
  expect(around(request, [http("ends too early", 90, 59)])).toBeUndefined();
  expect(around(request, [http("exact", 100, 50)])?.name).toBe("exact");
});
