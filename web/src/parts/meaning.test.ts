import { expect, test } from "vitest";

import { learn, meaning } from "./meaning";

test("a meaning is in the page's language, or as the server says it", () => {
  learn({ "process id": "进程号" });
  expect(meaning("process id")).toBe("进程号");
  expect([meaning("of a newer agent"), meaning("constructor")]).toEqual(["of a newer agent", "constructor"]);
  learn({});
  expect(meaning("process id")).toBe("process id");
});
