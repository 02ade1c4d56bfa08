import type { components } from "./schema";

export type Column = components["schemas"]["StreamColumn"] & {
  /** Names that its numbers have, such as those of errors. */
  names?: string[];
};
export type Stream = Omit<components["schemas"]["KnownStream"], "columns"> & { columns: Column[] };
export type Kind = "text" | "whole" | "number" | "truth" | "list";

/** Columns that every stream of processes has: shown last, because they rarely differ. */
const COMMON = ["ktime_ns", "start_ns", "cgroup_id", "pid", "tid", "uid", "cpu", "comm", "interval_ns"];

export function kindOf(column: Pick<Column, "type">): Kind {
  if (column.type.startsWith("dictionary") || column.type === "string") return "text";
  if (column.type.includes("list")) return "list";
  if (column.type === "bool") return "truth";
  return column.type.startsWith("float") || column.type === "double" ? "number" : "whole";
}

/** The column that the heatmap, the slowest rows and comparisons measure; none: rows are only counted. */
export function measured(stream: Stream): Column | undefined {
  const names = [stream.rollup.measured, "duration_ns", "total_ns", "lifetime_ns"];
  return names.map((name) => stream.columns.find((one) => one.name === name)).find((one) => one !== undefined);
}

/** The stream's own columns first, then those that all streams have. */
export function ordered(stream: Stream): Column[] {
  const place = (column: Column) => COMMON.indexOf(column.name);
  return [...stream.columns].sort((one, other) => place(one) - place(other));
}

/** What a filter compares: a column of a stream. */
export type Compared = Pick<Column, "name" | "type" | "unit" | "meaning" | "names">;

export function comparable(stream: Stream): Compared[] {
  return [...ordered(stream).filter((one) => !one.stack), ...stream.of_process];
}

/** The columns that a table of rows begins with. */
export function usual(stream: Stream): string[] {
  const own = stream.columns.filter((one) => !COMMON.includes(one.name) && !one.stack && kindOf(one) !== "list");
  const first = stream.columns.some((one) => one.name === "pid") ? ["comm", "pid"] : [];
  const measure = measured(stream)?.name;
  const rest = own.map((one) => one.name).filter((name) => name !== measure && !name.endsWith("_id"));
  return [...first, ...(measure ? [measure] : []), ...rest.slice(0, 6)];
}
