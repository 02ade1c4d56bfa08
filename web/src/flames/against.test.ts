import { expect, it } from "vitest";

import { othersOf } from "./against";

const at = (minute: number) => new Date(Date.UTC(2026, 0, 31, 12, minute));
const shown = { since: at(10), until: at(15) };
const whole = { since: at(0), until: at(30) };

it("a window is compared with the time before it, the whole around it, or any other", () => {
  expect(othersOf("before", shown, whole)).toEqual({ since: at(5), until: at(10) });
  expect(othersOf("rest", shown, whole)).toEqual(whole);
  expect(othersOf(`${at(20).toISOString()}~${at(21).toISOString()}`, shown, whole)).toEqual({ since: at(20), until: at(21) });
});

it("nothing, nonsense and a window that ends before it begins are no comparison", () => {
  for (const against of [undefined, "", "yesterday", "a~b", `${at(21).toISOString()}~${at(20).toISOString()}`]) {
    expect(othersOf(against, shown, whole)).toBeUndefined();
  }
  expect(othersOf("rest", whole, whole)).toBeUndefined();
});
