import { expect, it } from "vitest";

import { growth } from "./growth";

const steps = (...least: number[]) => least.map((one, number) => ({ at: number * 60, least: one, most: one + 5 }));

it("what is never freed grows, by what it holds more in an hour", () => {
  expect(growth(steps(0, 10, 20, 30, 40, 50))).toEqual({ perHour: 600, grows: true });
});

it("what is freed again, held from the begin on, or seen only a moment does not", () => {
  expect(growth(steps(0, 50, 0, 50, 0, 50)).grows).toBe(false);
  expect(growth(steps(90, 90, 90, 90, 90, 90))).toEqual({ perHour: 0, grows: false });
  expect(growth(steps(50, 40, 30, 20, 10, 0)).grows).toBe(false);
  expect(growth(steps(0, 10)).grows).toBe(false);
  expect(growth([])).toEqual({ perHour: 0, grows: false });
});
