import { type Frames, placed } from "./frames";

const FIRST_ROOM = 1024;

/** A tree that grows: frames with the same label below the same frame become one. As columns, with a hash table. */
export class Tree {
  readonly value: number[] = [0];
  readonly self: number[] = [0];
  readonly other: number[] = [0];
  readonly label: number[];
  private readonly parent: number[] = [-1];
  private table = new Int32Array(2 * FIRST_ROOM).fill(-1); // places of frames, by the hash of parent and label

  constructor(label: number) {
    this.label = [label];
  }

  /** The frame with a label below a frame; made if it is new. */
  child(parent: number, label: number): number {
    if (2 * this.label.length > this.table.length) this.grow();
    const slot = this.slot(parent, label);
    const known = this.table[slot] ?? -1;
    if (known >= 0) return known;
    const made = this.label.length;
    this.table[slot] = made;
    this.label.push(label);
    this.parent.push(parent);
    this.value.push(0);
    this.self.push(0);
    this.other.push(0);
    return made;
  }

  /** Adds what a frame weighs. */
  add(at: number, value: number, other: number): void {
    this.value[at] = (this.value[at] ?? 0) + value;
    this.other[at] = (this.other[at] ?? 0) + other;
  }

  /** The tree in depth-first order, the heaviest first; labels and texts are those of `of`. */
  frames(of: Frames, cut = 0): Frames {
    const size = this.label.length;
    const depth = new Uint16Array(size);
    const first = new Int32Array(size).fill(-1); // the lightest child of each frame, and its next heavier sibling
    const heavier = new Int32Array(size).fill(-1);
    for (let index = 1; index < size; index += 1) depth[index] = (depth[this.parent[index] ?? 0] ?? 0) + 1; // a parent comes first
    const heaviest = Int32Array.from(this.label, (_, index) => index).sort((one, other) => (this.value[other] ?? 0) - (this.value[one] ?? 0));
    for (const index of heaviest) {
      const parent = this.parent[index] ?? -1;
      if (parent < 0) continue;
      heavier[index] = first[parent] ?? -1;
      first[parent] = index;
    }
    const order = new Int32Array(size);
    const waiting = [0];
    for (let place = 0, at = waiting.pop(); at !== undefined; at = waiting.pop(), place += 1) {
      order[place] = at;
      for (let child = first[at] ?? -1; child >= 0; child = heavier[child] ?? -1) waiting.push(child);
    }
    const column = (values: number[]) => Float64Array.from(order, (index) => values[index] ?? 0);
    return placed({
      ...of,
      level: Uint16Array.from(order, (index) => depth[index] ?? 0),
      label: Int32Array.from(order, (index) => this.label[index] ?? 0),
      value: column(this.value),
      self: column(this.self),
      other: of.other.length ? column(this.other) : of.other,
      cut,
    });
  }

  private slot(parent: number, label: number): number {
    const mask = this.table.length - 1;
    let slot = (Math.imul(parent, 0x9e3779b1) ^ Math.imul(label + 1, 0x85ebca6b)) & mask;
    slot = (slot ^ (slot >>> 7)) & mask;
    for (let at = this.table[slot] ?? -1; at >= 0; at = this.table[slot] ?? -1) {
      if (this.parent[at] === parent && this.label[at] === label) return slot;
      slot = (slot + 1) & mask;
    }
    return slot;
  }

  private grow(): void {
    this.table = new Int32Array(2 * this.table.length).fill(-1);
    for (let index = 1; index < this.label.length; index += 1) this.table[this.slot(this.parent[index] ?? 0, this.label[index] ?? 0)] = index;
  }
}
