import { expect, test } from "vitest";

import { tokensOf } from "./tokens";

test("gaps are asked of the shown requests alone", () => {
  const requests = [{ pid: 11, request: 1007 }, { pid: 13, request: 5 }, { pid: 11, request: 1009 }, { pid: 11, request: 1009 }];
  expect(tokensOf(requests)).toBe("pid = 11 and request in (1007, 1009) or pid = 13 and request in (5)");
});
