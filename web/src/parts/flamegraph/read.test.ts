import { dictionary, int32, int64, tableFromArrays, tableToIPC, uint16, utf8 } from "@uwdata/flechette";
import { expect, it } from "vitest";

import { readFrames } from "./read";

it("the API's columns become frames, and large numbers stay whole", () => {
  const types = { level: uint16(), label: dictionary(utf8(), int32()), kind: dictionary(utf8(), int32()), value: int64(), self: int64(), other_value: int64() };
  const columns = {
    level: [0, 1, 2, 1],
    label: ["all", "main", "read", "gemm"],
    kind: ["", "user", "kernel", "user"],
    value: [2 ** 53 - 1, 5, 2 ** 32 + 7, 0],
    self: [0, 1, 2 ** 32 + 7, 0],
    other_value: [3, 2, 1, 0],
  };
  const content = tableToIPC(tableFromArrays(columns, { types, useBigInt: false } as object), { format: "stream" }) as Uint8Array<ArrayBuffer>;
  const frames = readFrames(content.buffer.slice(content.byteOffset, content.byteOffset + content.byteLength));
  const texts = [...frames.label].map((label) => `${frames.labels[label]} ${frames.kinds[label]}`);
  expect(texts).toEqual(["all ", "main user", "read kernel", "gemm user"]);
  expect([[...frames.level], [...frames.value], [...frames.self], [...frames.other]]).toEqual([columns.level, columns.value, columns.self, columns.other_value]);
  expect([...frames.end]).toEqual([4, 3, 3, 4]);
});
