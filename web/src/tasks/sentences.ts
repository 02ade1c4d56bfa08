import { msg } from "@lingui/core/macro";

import type { Sentence } from "../parts/said";

/** What server and agents say of tasks most often, in English, and the same in the page's language. */
export const OF_TASKS: Sentence[] = [
  [/^the agent is not connected$/, () => msg`the agent is not connected`],
  [/^the agent is not connected; it stops the task when it connects$/, () => msg`the agent is not connected; it stops the task when it connects`],
  [/^its agent is older than tasks with a filter: update it, or start the task without `where`$/, () => msg`its agent is older than tasks with a filter: update it, or start the task without a filter`],
  [/^its agent has not started it yet: a few tasks start at a time$/, () => msg`its agent has not started it yet: a few tasks start at a time`],
  [/^not recorded from (.+) to (.+) UTC: its agent was stopped$/, (since, until) => msg`not recorded from ${since} to ${until} UTC: its agent was stopped`],
  [/^not recorded from (.+) to (.+) UTC: its agent was killed$/, (since, until) => msg`not recorded from ${since} to ${until} UTC: its agent was killed`],
  [/^not recorded from (.+) to (.+) UTC: its run had failed$/, (since, until) => msg`not recorded from ${since} to ${until} UTC: its run had failed`],
  [/^not recorded since (.+) UTC: its agent was stopped$/, (since) => msg`not recorded since ${since} UTC: its agent was stopped`],
  [/^not recorded since (.+) UTC: its agent was killed$/, (since) => msg`not recorded since ${since} UTC: its agent was killed`],
  [/^not recorded since (.+) UTC: its run had failed$/, (since) => msg`not recorded since ${since} UTC: its run had failed`],
  [/^not recorded at (\d+) earlier times, see scope\.gaps$/, (times) => msg`not recorded at ${times} earlier times, see scope.gaps`],
  [/^no watched process has run a file with functions that '(.+)' attaches to$/, (probe) => msg`no watched process has run a file with functions that ${probe} attaches to`],
  [/^attached to ([\d,]+) functions; no watched process has called one$/, (count) => msg`attached to ${count} functions; no watched process has called one`],
  [/^(.+) was attached ([\d,]+) ms after it was mapped: earlier calls are missing$/, (path, ms) => msg`${path} was attached ${ms} ms after it was mapped: earlier calls are missing`],
  [/^([\d,]+) more files were attached after they were mapped$/, (count) => msg`${count} more files were attached after they were mapped`],
  [/^([\d,]+) files were mapped by processes that ended before the files could be opened$/, (count) => msg`${count} files were mapped by processes that ended before the files could be opened`],
  [/^([\d,]+) times the kernel lost news of mappings: some files may be missing$/, (count) => msg`${count} times the kernel lost news of mappings: some files may be missing`],
];
