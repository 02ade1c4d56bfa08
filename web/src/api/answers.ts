import type { components } from "./schema";

/** Shapes of answers whose rows differ by stream, so that the API's document cannot type them for all. */
export type Row = Record<string, unknown>;

export type Task = components["schemas"]["Task"];
export type Node = components["schemas"]["Node"];
export type Probe = components["schemas"]["Probe"];
export type Loss = components["schemas"]["LossInTime"];
