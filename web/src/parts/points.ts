import type { Line } from "./chart";
import type { Group } from "./series";

/** What a line is drawn of: a cell of a group's points. */
export interface Drawn {
  name: string;
  cell: string;
  group: Pick<Group, "points">;
}

/**
 * Cells of groups as lines over the same times. A step without rows, between the first and the last with some, is 0, or
 * unknown if the cells are no sums.
 */
export function linesOf(drawn: Drawn[], step_s: number, factor = 1, missing: 0 | null = 0): { times: number[]; lines: Line[] } {
  const some = drawn.flatMap(({ group }) => group.points.map((point) => Date.parse(point.time) / 1000));
  const times = steps([...new Set(some)].sort((one, other) => one - other), step_s);
  const lines = drawn.map(({ name, cell, group }) => {
    const at = new Map(group.points.map((point) => [Date.parse(point.time) / 1000, point.values[cell] ?? missing]));
    return { label: name, values: times.map((time) => scaled(at.get(time) ?? missing, factor)) };
  });
  return { times, lines };
}

function scaled(value: number | null, factor: number): number | null {
  return value === null ? null : value * factor;
}

/** What is in the whole and in none of the groups, as a line of its own; none, if that is nothing. */
export function rest(groups: Group[] | undefined, whole: Group | undefined, cell: string, name: string): Drawn[] {
  if (!groups?.length || !whole) return [];
  const left = new Map(whole.points.map((point) => [point.time, point.values[cell] ?? 0]));
  for (const point of groups.flatMap((group) => group.points)) {
    left.set(point.time, (left.get(point.time) ?? 0) - (point.values[cell] ?? 0));
  }
  const points = [...left].map(([time, value]) => ({ time, values: { [cell]: Math.max(0, value) } }));
  return points.some((point) => point.values[cell]) ? [{ name, cell, group: { points } }] : [];
}

const MOST_STEPS = 5000;

/** The times, and those of the steps between them. */
function steps(times: number[], step_s: number): number[] {
  const [first = 0, last = 0] = [times[0], times.at(-1)];
  if ((last - first) / step_s > MOST_STEPS) return times;
  return Array.from({ length: times.length && Math.round((last - first) / step_s) + 1 }, (_, number) => first + number * step_s);
}
