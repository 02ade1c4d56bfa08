import type { Search } from "./search";

/** In an address: a pid alone is another process as soon as it has been used again. */
export function named(pid: unknown, start: unknown): Pick<Search, "pid" | "start"> {
  return { pid: String(pid), start: start === null || start === undefined ? undefined : String(start) };
}

/** The filter for a process's rows. A browser rounds a start beyond 2^53 ns, which a machine has after 104 days. */
export function rowsOf(pid: number, start: number): string {
  if (Number.isSafeInteger(start)) return `pid = ${pid} and start_ns = ${start}`;
  const rounded = 512; // at most, up to 2^63
  return `pid = ${pid} and start_ns >= ${start - rounded} and start_ns <= ${start + rounded}`;
}
