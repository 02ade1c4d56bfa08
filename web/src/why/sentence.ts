import type { I18n, MessageDescriptor } from "@lingui/core";
import { msg } from "@lingui/core/macro";

import { said, type Sentence } from "../parts/said";

const DOING: Sentence[] = [
  [/^on a CPU$/, () => msg`on a CPU`],
  [/^waiting for a CPU$/, () => msg`waiting for a CPU`],
  [/^waiting for a GPU$/, () => msg`waiting for a GPU`],
  [/^blocked$/, () => msg`blocked`],
  [/^stopped by a signal$/, () => msg`stopped by a signal`],
  [/^not known$/, () => msg`not known`],
  [/^process (\d+)$/, (pid) => msg`process ${pid}`],
];
const CALLS: Sentence[] = [
  [/^in (\S.*?) of (.+)$/s, (call, file) => msg`in ${call} of ${file}`],
  [/^in (.+)$/s, (call) => msg`in ${call}`],
];
const WAITS: Sentence[] = [
  [/^(\S+ \S+) for the lock (.+) that (.+) held$/s, (time, lock, holder) => msg`${time} for the lock ${lock} that ${holder} held`],
  [/^(\S+ \S+) for the lock (.+)$/s, (time, lock) => msg`${time} for the lock ${lock}`],
];
/** What slowed a request, as its probe says it. */
export const CAUSES: Sentence[] = [[/^another request's prompt$/, () => msg`another request's prompt`], ...DOING];
const WHOSE: Sentence[] = [
  [/^This request of (.+)$/s, (program) => msg`This request of ${program}`],
  [/^This request$/, () => msg`This request`],
  [/^This token of (.+)$/s, (program) => msg`This token of ${program}`],
  [/^This row of (\S+) of (.+)$/s, (stream, program) => msg`This row of ${stream} of ${program}`],
  [/^(.+) of (\S+)$/s, (call, program) => msg`${call} of ${program}`],
];
const NOT_SPLIT: Sentence[] = [
  [
    /^The rows of (\S+) that would tell where its time went were not recorded\.$/,
    (stream) => msg`The rows of ${stream} that would tell where its time went were not recorded.`,
  ],
  [
    /^It is not known which of the process's threads worked on it, and when: (\S+) does not record it, so its time is not split\. What is said of threads is of all threads of the process\.$/,
    (stream) =>
      msg`It is not known which of the process's threads worked on it, and when: ${stream} does not record it, so its time is not split. What is said of threads is of all threads of the process.`,
  ],
  [/^What its thread (\d+) did meanwhile was not recorded\.$/, (tid) => msg`What its thread ${tid} did meanwhile was not recorded.`],
];
const NOTHING: Sentence[] = [
  [/^Nothing was recorded of where its time went\.$/, () => msg`Nothing was recorded of where its time went.`],
  [/^Nothing was recorded of which processes used its CPUs\.$/, () => msg`Nothing was recorded of which processes used its CPUs.`],
  [/^Nothing was recorded of processes that meet the filter\.$/, () => msg`Nothing was recorded of processes that meet the filter.`],
];
const SHARES: Sentence[] = [[/^nothing known$/, () => msg`nothing known`], [/^none of them much$/, () => msg`none of them much`]];
const SHARE = /^(\d+% )(.+)$/s;
const BEFORE_SHARE = /, (?=\d+% )/;
const BEFORE_WAIT = /, (?=\S+ \S+ for the lock )/;
const BEFORE_CAUSE = / (?=\d+% of it was in )/;

interface Say {
  one: (text: string, known: Sentence[]) => string;
  /** A list of shares, and what each is of. */
  shares: (list: string, known: Sentence[]) => string;
  all: (text: string, known: Form[]) => string;
}

/** The pattern of several sentences, and what each of them is; what was not said is empty. */
type Form = [RegExp, (say: Say, ...found: string[]) => (MessageDescriptor | string)[]];

const SLOWED: Form[] = [
  [/^(\d+%) of it was in 1 piece slowed by this: (.+)\.$/s, (say, share, cause) => [msg`${share} of it was in 1 piece slowed by this: ${say.one(cause, CAUSES)}.`]],
  [
    /^(\d+%) of it was in (\S+) pieces slowed by this: (.+)\.$/s,
    (say, share, pieces, cause) => [msg`${share} of it was in ${pieces} pieces slowed by this: ${say.one(cause, CAUSES)}.`],
  ],
];

/** What scope_views.why says: of a process, of a machine, and of a request whose time is split, and not. */
const FORMS: Form[] = [
  [
    /^Of (\S+ \S+) of its threads' time: (.+?)\.(?: Of the time blocked: (.+?)\.)?(?: It waited (\S+ \S+ for the lock .+)\.)?$/s,
    (say, time, parts, calls, waits) => [
      msg`Of ${time} of its threads' time: ${say.shares(parts, DOING)}.`,
      calls && msg`Of the time blocked: ${say.shares(calls, CALLS)}.`,
      waits && msg`It waited ${waits.split(BEFORE_WAIT).map((one) => say.one(one, WAITS)).join(", ")}.`,
    ],
  ],
  [
    /^(1|[\d,]+) process(?:es)? used (\S+ \S+) of CPU time: (.+?)\.(?: They waited (\S+ \S+) for a CPU: (.+)\.)?$/s,
    (say, count, used, users, waited, waiting) => [
      count === "1" ? msg`1 process used ${used} of CPU time: ${say.shares(users, DOING)}.` : msg`${count} processes used ${used} of CPU time: ${say.shares(users, DOING)}.`,
      waited && msg`They waited ${waited} for a CPU: ${say.shares(waiting, DOING)}.`,
    ],
  ],
  [
    /^(.+?) took (\S+ \S+): (.+?)\.((?: \d+% of it was in (?:1|[\d,]+) pieces? slowed by this: .+?\.)*)$/s,
    (say, whose, time, parts, causes) => [
      msg`${say.one(whose, WHOSE)} took ${time}: ${say.shares(parts, DOING)}.`,
      ...causes.split(BEFORE_CAUSE).map((cause) => say.all(cause, SLOWED)),
    ],
  ],
  [/^(.+?) took (\S+ \S+)\.(?: (.+))?$/s, (say, whose, time, why) => [msg`${say.one(whose, WHOSE)} took ${time}.`, why && say.one(why, NOT_SPLIT)]],
];

/** The sentences of an answer to "why?" in the page's language. */
export function sentenceOf(i18n: I18n, text: string): string {
  const say: Say = {
    one: (part, known) => said(i18n, part, known),
    shares: (list, known) =>
      list
        .split(BEFORE_SHARE)
        .map((each) => (SHARE.test(each) ? each.replace(SHARE, (_, share: string, of: string) => share + say.one(of, known)) : say.one(each, SHARES)))
        .join(", "),
    all: (part, known) => {
      for (const [pattern, told] of known) {
        const found = pattern.exec(part);
        if (found) {
          const sentences = told(say, ...found.slice(1)).filter(Boolean);
          return sentences.map((one) => (typeof one === "string" ? one : i18n._(one))).join(" ");
        }
      }
      return say.one(part, NOTHING);
    },
  };
  return say.all(text, FORMS);
}
