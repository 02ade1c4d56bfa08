/** The frames of a flame graph in depth-first order, as columns: no object a frame. */
export interface Frames {
  count: number;
  labels: string[];
  kinds: string[];
  label: Int32Array;
  level: Uint16Array;
  parent: Int32Array;
  /** The frame after the last one below this one. */
  end: Int32Array;
  /** Where a frame begins, in units of the root's value. */
  start: Float64Array;
  value: Float64Array;
  self: Float64Array;
  /** Of the side that is compared with; empty: there is none. */
  other: Float64Array;
  /** The frames by level, from left to right; level n begins at `levelAt[n]` and ends at `levelAt[n + 1]`. */
  byLevel: Int32Array;
  levelAt: Int32Array;
  depth: number;
  /** Frames whose callers or callees were left out, because they are too small to be seen. */
  cut: number;
  unit: string;
  title: string;
  samples: string;
  complete: string;
}

export type Unplaced = Omit<Frames, "count" | "parent" | "end" | "start" | "byLevel" | "levelAt" | "depth">;

/** Gives each frame its parent, its end and its place. */
export function placed(given: Unplaced): Frames {
  const { level, value } = given;
  const count = level.length;
  const depth = level.reduce((most, one) => Math.max(most, one + 1), 0);
  const parent = new Int32Array(count).fill(-1);
  const end = new Int32Array(count).fill(count);
  const start = new Float64Array(count);
  const levelAt = new Int32Array(depth + 1);
  const open = new Int32Array(depth); // newest frame of each level
  const next = new Float64Array(depth); // where the next child of it begins
  let before = -1; // level of the frame before
  for (let index = 0; index < count; index += 1) {
    const at = level[index] ?? 0;
    for (let closed = at; closed <= before; closed += 1) end[open[closed] ?? 0] = index;
    if (at > 0) {
      const above = open[at - 1] ?? 0;
      const place = next[at - 1] ?? 0;
      parent[index] = above;
      start[index] = place;
      next[at - 1] = place + (value[index] ?? 0);
    }
    open[at] = index;
    next[at] = start[index] ?? 0;
    levelAt[at + 1] = (levelAt[at + 1] ?? 0) + 1;
    before = at;
  }
  for (let at = 0; at < depth; at += 1) levelAt[at + 1] = (levelAt[at + 1] ?? 0) + (levelAt[at] ?? 0);
  return { ...given, count, parent, end, start, byLevel: sorted(level, levelAt), levelAt, depth };
}

function sorted(level: Uint16Array, levelAt: Int32Array): Int32Array {
  const byLevel = new Int32Array(level.length);
  const next = levelAt.slice();
  for (let index = 0; index < level.length; index += 1) {
    const at = level[index] ?? 0;
    const place = next[at] ?? 0;
    byLevel[place] = index;
    next[at] = place + 1;
  }
  return byLevel;
}

/** The frames above a frame, innermost first. */
export function path(frames: Frames, index: number): number[] {
  const found: number[] = [];
  for (let at = frames.parent[index] ?? -1; at >= 0; at = frames.parent[at] ?? -1) found.push(at);
  return found;
}

/** The first place in `byLevel`, of a level, of a frame that is not before `index`. */
export function placeIn(frames: Frames, level: number, index: number): number {
  let [low, high] = [frames.levelAt[level] ?? 0, frames.levelAt[level + 1] ?? 0];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((frames.byLevel[middle] ?? 0) < index) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The frame beside a frame, below the same one; the frame itself if there is none. */
export function sibling(frames: Frames, index: number, step: 1 | -1): number {
  const place = placeIn(frames, frames.level[index] ?? 0, index) + step;
  const beside = frames.byLevel[place] ?? index;
  return frames.level[beside] === frames.level[index] && frames.parent[beside] === frames.parent[index] ? beside : index;
}

/** What the outermost frames with one of these labels weigh. */
export function weightOf(frames: Frames, labels: Uint8Array): number {
  let sum = 0;
  for (let index = 0; index < frames.count; ) {
    if (labels[frames.label[index] ?? 0]) {
      sum += frames.value[index] ?? 0;
      index = frames.end[index] ?? frames.count;
    } else index += 1;
  }
  return sum;
}
