import { hashed } from "../hash";
import type { Frames } from "./frames";

/** Where a frame is, by the names from the outermost one to it: the same in later answers, and short enough for an address. */
export function placeOf({ parent, label, labels }: Frames, index: number): string {
  const path: number[] = [];
  for (let at = index; at > 0; at = parent[at] ?? 0) path.push(at);
  let found: number | undefined;
  while (path.length) found = hashed(`${labels[label[path.pop() ?? 0] ?? 0]};`, found);
  return (found ?? 0).toString(36);
}

/** The frame at a place; 0, which is all of the graph: it has none there. */
export function frameIn({ count, parent, label, labels }: Frames, place: string | undefined): number {
  if (!place) return 0;
  const hashes = new Float64Array(count);
  for (let index = 1; index < count; index += 1) {
    const above = parent[index] ?? 0;
    const found = hashed(`${labels[label[index] ?? 0]};`, above > 0 ? hashes[above] : undefined);
    if (found.toString(36) === place) return index;
    hashes[index] = found;
  }
  return 0;
}
