import { setupI18n } from "@lingui/core";
import { expect, it } from "vitest";

import { messages } from "../locales/zh.po";
import { sentenceOf } from "./sentence";

const ENGLISH = setupI18n({ locale: "en", messages: { en: {} } });
const CHINESE = setupI18n({ locale: "zh", messages: { zh: messages } });
const SENTENCES = [
  "Nothing was recorded of where its time went.",
  "Nothing was recorded of processes that meet the filter.",
  "Of 1.98 s of its threads' time: nothing known.",
  "Of 1.98 s of its threads' time: 61% waiting for a CPU, 39% on a CPU.",
  "Of 12 ms of its threads' time: 70% blocked, 20% on a CPU. Of the time blocked: 40% in read of /x. y, z, 20% in page fault. It waited 3.1 ms for the lock 0x7f01 that a, b held, 1 ms for the lock 0x2.",
  "1 process used 3 s of CPU time: 100% make (7).",
  "1,027 processes used 3 s of CPU time: none of them much. They waited 2.5 s for a CPU: 60% a, b (71), 10% process 9.",
  "This request of llama-server took 2.1 s: 55% waiting for a CPU, 45% on a CPU. 30% of it was in 12 pieces slowed by this: another request's prompt. 6% of it was in 1 piece slowed by this: stopped by a signal.",
  "read of curl took 10.2 ms. What its thread 77 did meanwhile was not recorded.",
];

it.each(SENTENCES)("in English it is what the server said: %s", (sentence) => {
  expect(sentenceOf(ENGLISH, sentence)).toBe(sentence);
});

it.each(SENTENCES)("in Chinese nothing but names is left in English: %s", (sentence) => {
  const names = /\b(read|page fault|make|process 9|llama-server|curl|CPU|ms|s|[abxyz]|0x\w+)\b/g;
  expect(sentenceOf(CHINESE, sentence).replaceAll(names, "")).not.toMatch(/[A-Za-z]/);
});

it("another sentence is told as it is", () => {
  expect(sentenceOf(CHINESE, "something new: 7")).toBe("something new: 7");
});
