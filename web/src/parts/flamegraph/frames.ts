import { tableFromIPC } from "@uwdata/flechette";

/** The frames of a flame graph in depth-first order, as columns: no object a frame. */
export interface Frames {
  count: number;
  labels: string[];
  kinds: string[];
  label: Int32Array;
  level: Uint16Array;
  parent: Int32Array;
  /** Where a frame begins, in units of the root's value. */
  start: Float64Array;
  value: Float64Array;
  self: Float64Array;
  /** Of the side that is compared with; empty: there is none. */
  other: Float64Array;
  depth: number;
  unit: string;
  title: string;
  samples: string;
  complete: string;
}

/** Reads the API's answer. */
export function readFrames(content: ArrayBuffer): Frames {
  const table = tableFromIPC(new Uint8Array(content), { useBigInt: false });
  const numbers = (name: string) => {
    const column = table.getChild(name);
    return column ? Float64Array.from(column.toArray() as ArrayLike<number>, Number) : new Float64Array();
  };
  const texts = table.getChild("label")?.toArray() as string[];
  const kinds = table.getChild("kind")?.toArray() as string[];
  const known = new Map<string, number>();
  const frames = { labels: [] as string[], kinds: [] as string[] };
  const label = Int32Array.from(texts, (text, index) => {
    const key = `${kinds[index]} ${text}`;
    const number = known.get(key) ?? known.size;
    if (number === known.size) {
      known.set(key, number);
      frames.labels.push(text);
      frames.kinds.push(kinds[index] ?? "");
    }
    return number;
  });
  const told = table.schema.metadata;
  return placed({
    ...frames,
    label,
    level: Uint16Array.from(table.getChild("level")?.toArray() as ArrayLike<number>),
    value: numbers("value"),
    self: numbers("self"),
    other: numbers("other_value"),
    unit: told?.get("unit") ?? "",
    title: told?.get("title") ?? "",
    samples: told?.get("samples") ?? "",
    complete: told?.get("complete") ?? "true",
  });
}

type Unplaced = Omit<Frames, "count" | "parent" | "start" | "depth">;

/** Gives each frame its parent and its place. */
export function placed(given: Unplaced): Frames {
  const count = given.level.length;
  const parent = new Int32Array(count).fill(-1);
  const start = new Float64Array(count);
  const last: number[] = []; // newest frame of each level
  const end: number[] = []; // where the next child of it begins
  let depth = 0;
  for (let index = 0; index < count; index += 1) {
    const level = given.level[index] ?? 0;
    depth = Math.max(depth, level + 1);
    if (level > 0) {
      const above = last[level - 1] ?? 0;
      parent[index] = above;
      start[index] = end[level - 1] ?? 0;
      end[level - 1] = (start[index] ?? 0) + (given.value[index] ?? 0);
    }
    last[level] = index;
    end[level] = start[index] ?? 0;
  }
  return { ...given, count, parent, start, depth };
}

interface Branch {
  label: number;
  value: number;
  self: number;
  other: number;
  below: Map<number, Branch>;
}

function branch(label: number): Branch {
  return { label, value: 0, self: 0, other: 0, below: new Map() };
}

/** The same turned round: what was innermost is outermost, so that all callers of a function are below it. */
export function inverted(frames: Frames, of?: number): Frames {
  const root = branch(frames.label[0] ?? 0);
  const otherSelf = selfOf(frames, frames.other);
  for (let index = 0; index < frames.count; index += 1) {
    const [weight, other] = [frames.self[index] ?? 0, otherSelf[index] ?? 0];
    if (weight === 0 && other === 0) continue;
    let at: number = index;
    if (of !== undefined) while (at > 0 && frames.label[at] !== of) at = frames.parent[at] ?? -1;
    if (at < 0 || (of !== undefined && at === 0 && frames.label[0] !== of)) continue;
    let place = root;
    place.value += weight;
    place.other += other;
    for (; at > 0; at = frames.parent[at] ?? -1) {
      const label = frames.label[at] ?? 0;
      let next = place.below.get(label);
      if (!next) place.below.set(label, (next = branch(label)));
      next.value += weight;
      next.other += other;
      place = next;
    }
    place.self += weight;
  }
  return flattened(frames, root);
}

/** What the frames below a function are, wherever it is called: the lower half of a sandwich. */
export function below(frames: Frames, of: number): Frames {
  const root = branch(frames.label[0] ?? 0);
  const places: (Branch | undefined)[] = [];
  for (let index = 0; index < frames.count; index += 1) {
    const parent = frames.parent[index] ?? -1;
    const label = frames.label[index] ?? 0;
    const above = parent >= 0 ? places[parent] : undefined;
    const place = above ?? (label === of ? root : undefined);
    if (!place) continue;
    let next = place.below.get(label);
    if (!next) place.below.set(label, (next = branch(label)));
    if (place === root) {
      root.value += frames.value[index] ?? 0;
      root.other += frames.other[index] ?? 0;
    }
    next.value += frames.value[index] ?? 0;
    next.other += frames.other[index] ?? 0;
    next.self += frames.self[index] ?? 0;
    places[index] = next;
  }
  return flattened(frames, root);
}

function selfOf(frames: Frames, value: Float64Array): Float64Array {
  if (!value.length) return value;
  const own = Float64Array.from(value);
  for (let index = 1; index < frames.count; index += 1) {
    const parent = frames.parent[index] ?? 0;
    own[parent] = (own[parent] ?? 0) - (value[index] ?? 0);
  }
  return own;
}

function flattened(frames: Frames, root: Branch): Frames {
  const level: number[] = [];
  const label: number[] = [];
  const value: number[] = [];
  const self: number[] = [];
  const other: number[] = [];
  const waiting: [Branch, number][] = [[root, 0]];
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    const [one, at] = next;
    level.push(at);
    label.push(one.label);
    value.push(one.value);
    self.push(one.self);
    other.push(one.other);
    const inner = [...one.below.values()].sort((a, b) => a.value - b.value);
    for (const child of inner) waiting.push([child, at + 1]);
  }
  return placed({
    ...frames,
    level: Uint16Array.from(level),
    label: Int32Array.from(label),
    value: Float64Array.from(value),
    self: Float64Array.from(self),
    other: frames.other.length ? Float64Array.from(other) : frames.other,
  });
}

export interface Function {
  label: number;
  total: number;
  self: number;
}

/** Functions by their time; a recursive one counts once a stack. */
export function functions(frames: Frames): Function[] {
  const found = new Map<number, Function>();
  const open: number[] = [];
  for (let index = 1; index < frames.count; index += 1) {
    const [level, label] = [frames.level[index] ?? 0, frames.label[index] ?? 0];
    open.length = Math.min(open.length, level);
    const one = found.get(label) ?? { label, total: 0, self: 0 };
    if (!open.includes(label)) one.total += frames.value[index] ?? 0;
    one.self += frames.self[index] ?? 0;
    found.set(label, one);
    open[level] = label;
  }
  return [...found.values()].sort((one, other) => other.self - one.self);
}
