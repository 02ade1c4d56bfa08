import { msg } from "@lingui/core/macro";

import type { Sentence } from "../parts/said";
import { CAUSES } from "../why/sentence";

/** What the server says of a row that took long: what slowed it, what took longer, and which values most rows do not have. */
export const UNUSUAL: Sentence[] = [
  ...CAUSES,
  [/^(\S+) is (.+), (\S+ \S+) more than usual$/s, (column, value, longer) => msg`${column} is ${value}, ${longer} more than usual`],
  [/^(\S+) is (.+); usual is (.+)$/s, (column, value, usual) => msg`${column} is ${value}; usual is ${usual}`],
  [/^(\S+) is (.+); (\d+%) of rows have (.+)$/s, (column, value, share, usual) => msg`${column} is ${value}; ${share} of rows have ${usual}`],
];
