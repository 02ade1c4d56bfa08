import { hashed } from "../hash";
import type { Frames } from "./frames";

/** Where a frame is, by the names from the outermost one to it: the same in later answers, and short enough for an address. */
export function placeOf({ parent, label, labels }: Frames, index: number): string {
  const path: number[] = [];
  for (let at = index; at > 0; at = parent[at] ?? 0) path.push(at);
  let found = 0;
  while (path.length) found = below(found, hashed(labels[label[path.pop() ?? 0] ?? 0] ?? ""));
  return found.toString(36);
}

/** The frame at a place; 0, which is all of the graph: it has none there. */
export function frameIn({ count, parent, label, labels }: Frames, place: string | undefined): number {
  if (!place) return 0;
  const wanted = Number.parseInt(place, 36);
  const names = Float64Array.from(labels, (name) => hashed(name)); // each is that of many frames
  const places = new Float64Array(count);
  for (let index = 1; index < count; index += 1) {
    const found = below(places[parent[index] ?? 0] ?? 0, names[label[index] ?? 0] ?? 0);
    if (found === wanted) return index;
    places[index] = found;
  }
  return 0;
}

/** The place of a frame whose name has this hash, below a frame at a place. */
function below(place: number, name: number): number {
  return Math.imul(place ^ name, 0x9e3779b1) >>> 0;
}
