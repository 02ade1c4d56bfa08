import type { Column, Stream } from "../api/columns";
import { bytes, count, quantity, share } from "./format";

/** What totals compute when a card does not say: the sum of the measured column, or the number of rows. */
export function usualCell(stream: Stream): string {
  const measure = stream.rollup.measured;
  return measure && stream.columns.some((one) => one.name === measure) ? `sum(${measure})` : "count";
}

/** The column of a cell such as `sum(bytes)`; undefined: it has none. */
export function columnOf(cell: string, stream: Stream | undefined): Column | undefined {
  const name = /\((\w+)/.exec(cell)?.[1];
  return stream?.columns.find((one) => one.name === name);
}

/** A cell's value as text. */
export function toldCell(cell: string, stream: Stream | undefined): (value: number) => string {
  const unit = columnOf(cell, stream)?.unit ?? "";
  return (value) => quantity(value, unit);
}

/** Whether the cells of groups add up to that of all of them. */
export function isSum(cell: string): boolean {
  return ["count", "failed"].includes(cell) || cell.startsWith("sum(");
}

/** How a cell is drawn over time: what its steps are multiplied by, and what a value is then. Sums become rates. */
export function rateOf(cell: string, stream: Stream | undefined, step_s: number): { factor: number; told: (value: number) => string } {
  const unit = columnOf(cell, stream)?.unit ?? "";
  if (!isSum(cell)) return { factor: 1, told: toldCell(cell, stream) };
  if (unit === "ns") return { factor: 1 / step_s / 1e9, told: share };
  return { factor: 1 / step_s, told: (value) => (unit === "bytes" ? `${bytes(value)}/s` : `${count(value)}/s`) };
}
