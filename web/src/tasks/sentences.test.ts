import { setupI18n } from "@lingui/core";
import { expect, it } from "vitest";

import { said } from "../parts/said";
import { OF_TASKS } from "./sentences";

const i18n = setupI18n({ locale: "en", messages: { en: {} } });

it("a known sentence is told with its parts, and another one as it is", () => {
  const told = "/usr/lib/libc.so.6 was attached 1,009 ms after it was mapped: earlier calls are missing";
  expect(said(i18n, told, OF_TASKS)).toBe(told);
  expect(said(i18n, "no watched process has run a file with functions that 'cuda' attaches to", OF_TASKS)).toContain("functions that cuda attaches to");
  expect(said(i18n, "something new: 7", OF_TASKS)).toBe("something new: 7");
});
