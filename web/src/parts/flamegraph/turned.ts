import type { Frames } from "./frames";
import { Tree } from "./tree";

const FINEST = 1 / 65_536; // of the whole; what is smaller is not followed further: it takes 50 zooms by ten to see it

/** The same turned round: what was innermost is outermost, so that all callers of a function are below it.
 *
 * @param of a function: only stacks with it, from it outwards.
 */
export function inverted(frames: Frames, of?: number): Frames {
  const tree = new Tree(frames.label[0] ?? 0);
  const other = ownOf(frames, frames.other);
  const begin = of === undefined ? undefined : nearest(frames, of);
  // Each weight walks outwards, one caller a round: the frame that it comes from, where it is, and its frame in the tree.
  const origin = new Int32Array(frames.count);
  const at = new Int32Array(frames.count);
  const node = new Int32Array(frames.count);
  let walking = 0;
  for (let index = 0; index < frames.count; index += 1) {
    const weight = frames.self[index] ?? 0;
    const from = begin ? (begin[index] ?? -1) : index;
    if (from < 0 || (weight === 0 && !other[index])) continue;
    tree.add(0, weight, other[index] ?? 0);
    origin[walking] = index;
    at[walking] = from;
    walking += 1;
  }
  const small = { value: (tree.value[0] ?? 0) * FINEST, other: (tree.other[0] ?? 0) * FINEST };
  const left = new Set<number>();
  while (walking > 0) {
    let kept = 0;
    for (let one = 0; one < walking; one += 1) {
      const [from, here, place] = [origin[one] ?? 0, at[one] ?? 0, node[one] ?? 0];
      if (here === 0) {
        tree.self[place] = (tree.self[place] ?? 0) + (frames.self[from] ?? 0);
        continue;
      }
      if (place > 0 && (tree.value[place] ?? 0) < small.value && (tree.other[place] ?? 0) <= small.other) {
        left.add(place);
        continue;
      }
      const next = tree.child(place, frames.label[here] ?? 0);
      tree.add(next, frames.self[from] ?? 0, other[from] ?? 0);
      origin[kept] = from;
      at[kept] = frames.parent[here] ?? 0;
      node[kept] = next;
      kept += 1;
    }
    walking = kept;
  }
  return tree.frames(frames, left.size);
}

/** What the frames below a function are, wherever it is called: the lower half of a sandwich. */
export function below(frames: Frames, of: number): Frames {
  const tree = new Tree(frames.label[0] ?? 0);
  const places = new Int32Array(frames.count).fill(-1);
  for (let index = 0; index < frames.count; index += 1) {
    const label = frames.label[index] ?? 0;
    const above = places[frames.parent[index] ?? -1] ?? -1;
    if (above < 0 && label !== of) continue;
    const [value, other] = [frames.value[index] ?? 0, frames.other[index] ?? 0];
    if (above < 0) tree.add(0, value, other);
    const place = tree.child(Math.max(above, 0), label);
    tree.add(place, value, other);
    tree.self[place] = (tree.self[place] ?? 0) + (frames.self[index] ?? 0);
    places[index] = place;
  }
  return tree.frames(frames);
}

/** For each frame: the innermost frame of a function at or above it; -1: there is none. */
function nearest(frames: Frames, of: number): Int32Array {
  const found = new Int32Array(frames.count);
  for (let index = 0; index < frames.count; index += 1) {
    found[index] = frames.label[index] === of ? index : (found[frames.parent[index] ?? -1] ?? -1);
  }
  return found;
}

/** What is a frame's own of an inclusive value. */
function ownOf(frames: Frames, value: Float64Array): Float64Array {
  const own = value.slice();
  for (let index = 1; index < own.length; index += 1) {
    const parent = frames.parent[index] ?? 0;
    own[parent] = (own[parent] ?? 0) - (value[index] ?? 0);
  }
  return own;
}
