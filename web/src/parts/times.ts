import { both } from "./complete";
import type { Search } from "./search";

export const DEFAULT_LENGTH = "1h";
const UNITS: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400 };

export interface Times {
  since: Date;
  until: Date;
}

/** Seconds of a length such as `15m`; undefined: it is none. */
export function seconds(length: string): number | undefined {
  const found = /^(\d{1,6})([smhd])$/.exec(length);
  return found ? Number(found[1]) * (UNITS[found[2] ?? ""] ?? 1) : undefined;
}

/** The window that an address names, as of now. What is no time counts as the default. */
export function timesOf(search: Pick<Search, "since" | "until">, now = new Date()): Times {
  const end = search.until ? new Date(search.until) : now;
  const until = Number.isNaN(end.getTime()) ? now : end;
  const length = seconds(search.since ?? DEFAULT_LENGTH);
  const begin = length === undefined ? new Date(search.since ?? "") : new Date(until.getTime() - length * 1000);
  const usable = !Number.isNaN(begin.getTime()) && begin < until;
  return { since: usable ? begin : new Date(until.getTime() - 3_600_000), until };
}

/** Whether the window ends now, and so moves on. */
export function isLive(search: Pick<Search, "until">): boolean {
  return !search.until;
}

/** Begin and end as the API takes them. */
export function asked(search: Pick<Search, "since" | "until">): { since: string; until: string } {
  const { since, until } = timesOf(search);
  return { since: since.toISOString(), until: until.toISOString() };
}

/**
 * The step of a series with a readable number of points. Below a minute only where rows are just counted, `fine`: there are
 * rollups of that, and all else would be read from rows. Summaries have a row a second: shorter steps would jump.
 */
export function step({ since, until }: Times, fine = false): "5s" | "15s" | "1m" | "5m" | "15m" | "1h" | "6h" | "1d" {
  const length = (until.getTime() - since.getTime()) / 1000;
  if (fine && length <= 150) return "5s";
  if (fine && length <= 40 * 60) return "15s";
  if (length <= 150 * 60) return "1m";
  if (length <= 12 * 3600) return "5m";
  if (length <= 2 * 86_400) return "15m";
  if (length <= 8 * 86_400) return "1h";
  return length <= 60 * 86_400 ? "6h" : "1d";
}

/** The brushed part of a chart: a window and, if it has borders, a range of the column that its stream measures. */
export interface Selection extends Times {
  stream: string;
  least?: number;
  most?: number;
}

/** Begin and end of the selected part, or of the window if nothing is selected, as the API takes them. */
export function askedPart(search: Pick<Search, "since" | "until" | "brushed">): { since: string; until: string } {
  const selection = readSelection(search.brushed);
  return selection ? { since: selection.since.toISOString(), until: selection.until.toISOString() } : asked(search);
}

export function writeSelection({ stream, since, until, least, most }: Selection): string {
  return [since.toISOString(), until.toISOString(), least ?? "", most ?? "", stream].join("~");
}

export function readSelection(text: string | undefined): Selection | undefined {
  const [since, until, least, most, stream = ""] = (text ?? "").split("~");
  const times = { since: new Date(since ?? ""), until: new Date(until ?? "") };
  if (Number.isNaN(times.since.getTime()) || Number.isNaN(times.until.getTime()) || times.since >= times.until) return;
  return { ...times, stream, least: least ? Number(least) : undefined, most: most ? Number(most) : undefined };
}

/** The filter that a selection stands for, with the filter of the page. */
export function selecting({ least, most }: Selection, column: string | undefined, where: string | undefined): string | undefined {
  const from = column && least !== undefined ? `${column} >= ${Math.floor(least)}` : undefined;
  const to = column && most !== undefined ? `${column} < ${Math.ceil(most)}` : undefined;
  return both(where, both(from, to));
}
