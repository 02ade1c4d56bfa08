import { type Table, tableFromIPC } from "@uwdata/flechette";

import { type Frames, placed } from "./frames";

/** Reads the API's answer: its columns stay columns of numbers, so that no text or object is made for each frame. */
export function readFrames(content: ArrayBuffer): Frames {
  const table = tableFromIPC(new Uint8Array(content), { useBigInt: true });
  const [label, kind] = [coded(table, "label"), coded(table, "kind")];
  const kinds = label.texts.map(() => "");
  label.codes.forEach((number, index) => (kinds[number] = kind.texts[kind.codes[index] ?? 0] ?? ""));
  const told = table.schema.metadata;
  return placed({
    labels: label.texts,
    kinds,
    label: label.codes,
    level: new Uint16Array(table.getChild("level")?.toArray() as Uint16Array),
    value: whole(table, "value"),
    self: whole(table, "self"),
    other: whole(table, "other_value"),
    cut: 0,
    unit: told?.get("unit") ?? "",
    title: told?.get("title") ?? "",
    samples: told?.get("samples") ?? "",
    complete: told?.get("complete") ?? "true",
  });
}

/** What flechette's types leave out of a batch of a dictionary's codes. */
interface Coded {
  dictionary: { toArray(): ArrayLike<string> };
  values: ArrayLike<number>;
}

/** The texts of a column, and which of them each frame has. */
function coded(table: Table, name: string): { texts: string[]; codes: Int32Array } {
  const batch = table.getChild(name)?.data[0] as unknown as Coded | undefined; // the answer has one batch
  return { texts: Array.from(batch?.dictionary.toArray() ?? []), codes: new Int32Array(batch?.values ?? []) };
}

/** A column of 64 bit numbers. Arrow has the lower half of each first. */
function whole(table: Table, name: string): Float64Array {
  const column = table.getChild(name)?.toArray() as BigInt64Array | undefined;
  if (!column) return new Float64Array();
  const halves = new Uint32Array(column.buffer, column.byteOffset, 2 * column.length);
  const found = new Float64Array(column.length);
  for (let index = 0; index < found.length; index += 1) found[index] = (halves[2 * index + 1] ?? 0) * 2 ** 32 + (halves[2 * index] ?? 0);
  return found;
}
