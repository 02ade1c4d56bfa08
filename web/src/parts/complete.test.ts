import { describe, expect, it } from "vitest";

import { also, complete } from "./complete";

const TEXT = "dictionary<values=string, indices=int32, ordered=0>";
const column = (name: string, type: string) => ({ name, type, unit: "", meaning: "" });
const columns = [column("comm", TEXT), column("duration_ns", "uint64"), column("pid", "int32")];
const texts = (text: string) => complete(text, text.length, columns, (name) => (name === "comm" ? ["it's", "bash"] : [])).options.map((one) => one.text);

describe("completion follows the filter grammar", () => {
  it("offers columns first, and after and, or, not and a parenthesis", () => {
    for (const text of ["", "pid = 1 and ", "not ", "(", "pid = 1 or du"]) expect(texts(text)).toContain("duration_ns");
  });
  it("offers the operators of the column's type", () => {
    expect(texts("comm ")).toContain("~");
    expect(texts("duration_ns ")).toContain(">=");
    expect(texts("duration_ns ")).not.toContain("~");
  });
  it("offers seen values as literals, then what joins comparisons", () => {
    expect(texts("comm = ")).toEqual(["'it''s'", "'bash'"]);
    expect(texts("comm = 'bash' ")).toEqual(["and", "or"]);
  });
});

describe("a filter made from a value", () => {
  it("quotes texts, and keeps what the filter means", () => {
    expect(also("pid = 1 or pid = 2", column("comm", TEXT), "a'b")).toBe("(pid = 1 or pid = 2) and comm = 'a''b'");
    expect(also(undefined, column("pid", "int32"), null)).toBe("pid is null");
    expect(also(undefined, column("pid", "int32"), 7, true)).toBe("pid != 7");
  });
});
