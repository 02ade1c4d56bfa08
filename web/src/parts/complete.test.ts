import { describe, expect, it } from "vitest";

import cases from "../../../tests/filter_cases.json";
import { also, complete } from "./complete";

const TEXT = "dictionary<values=string, indices=int32, ordered=0>";
const column = (name: string, type: string) => ({ name, type, unit: "", meaning: "" });

// A unit that is not there is empty, as in the catalogue.
const columns = cases.columns.map((one) => ({ unit: "", meaning: "", ...one }));
const values: Record<string, string[]> = cases.values;

describe("completion follows the filter grammar", () => {
  it.each(cases.completions)("$before · $word", ({ before, word, offers, not = [] }) => {
    const text = before + word;
    const { options, from } = complete(text, text.length, columns, ({ name }) => values[name] ?? []);
    const found = options.map((one) => one.text);
    expect(from).toBe(before.length);
    expect(found).toEqual(offers.length ? expect.arrayContaining(offers) : []);
    for (const one of not) expect(found).not.toContain(one);
  });

  it("tells how many more there are", () => {
    const many = Array.from({ length: 41 }, (_, number) => column(`c${number}`, "int64"));
    const { options, hidden } = complete("c", 1, many, () => []);
    expect([options.length, hidden, complete("c4", 2, many, () => []).hidden]).toEqual([30, 11, 0]);
  });

  it("tells of which column a value comes next, and what is written of it", () => {
    const of = (text: string) => complete(text, text.length, columns, () => []).of;
    expect([of("comm = ")?.column.name, of("comm in ('a', 'it''")?.written]).toEqual(["comm", "it'"]);
    expect(complete("comm ", 5, columns, () => []).of).toBeUndefined();
  });
});

describe("a filter made from a value", () => {
  it("quotes texts, and keeps what the filter means", () => {
    expect(also("pid = 1 or pid = 2", column("comm", TEXT), "a'b")).toBe("(pid = 1 or pid = 2) and comm = 'a''b'");
    expect(also(undefined, column("pid", "int32"), null)).toBe("pid is null");
    expect(also(undefined, column("pid", "int32"), 7, true)).toBe("pid != 7");
  });
});
