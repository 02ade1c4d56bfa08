import type { MessageDescriptor } from "@lingui/core";
import type { ComponentType } from "react";

/** A screen about a subject, as data: which streams tell of it, and the cards below their picture. */
export interface Subject {
  title: MessageDescriptor;
  meaning: MessageDescriptor;
  /** The probe that is started if nothing is recorded. */
  probe: string;
  /** Streams that are pictured over time, the best one first. */
  streams: string[];
  /** Cards that stand beside each other, line by line. */
  lines: Card[][];
}

/** What is added up: the groups of a stream by one of its columns. */
export interface Source {
  stream: string;
  by: string;
  /** What ranks the groups, such as `failed` or `sum(bytes)`; none: the sum of the measured column. */
  cell?: string;
  where?: string;
}

/** Stacks of a stream. */
export interface Stacks {
  stream: string;
  where?: string;
}

/** A card shows the first of its sources whose stream has rows in the window. */
export type Card =
  | { show: "top"; title: MessageDescriptor; of: Source[] }
  | { show: "lines"; title: MessageDescriptor; of: Source[]; stacked?: boolean }
  | { show: "slowest"; title: MessageDescriptor; of: { stream: string }[] }
  | { show: "flame"; title: MessageDescriptor; of: Stacks[] }
  | { show: "own"; part: ComponentType };

/** The first source whose stream is recorded, or the best one; undefined: there is none at all. */
export function chosen<T extends { stream: string }>(of: T[], recorded: ReadonlySet<string>): T | undefined {
  return of.find((one) => recorded.has(one.stream)) ?? of[0];
}
