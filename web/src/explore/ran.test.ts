import { expect, test } from "vitest";

import { meanwhile } from "./ran";

const ran = (pid: number, ns: number) => ({ pid, comm: "hog", ns });

test("what ran more inside comes first", () => {
  const shares = meanwhile([ran(11, 50), ran(13, 40)], 100, [ran(11, 500), ran(13, 40)], 1000);
  expect(shares.map(({ pid, inside, outside }) => [pid, inside, outside])).toEqual([[13, 0.4, 0], [11, 0.5, 0.5]]);
});

test("of whom the rest is not known, nobody says that it did not run", () => {
  expect(meanwhile([ran(17, 50)], 100, [], 1000)).toEqual([{ pid: 17, comm: "hog", inside: 0.5, outside: undefined }]);
});
