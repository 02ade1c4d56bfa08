import { type Column, type Compared, kindOf } from "../api/columns";
import { type Expects, meant, read, wordAt } from "./grammar";

interface Option {
  text: string;
  meaning: string;
}

/** What may come at the cursor of a filter. */
export interface Completion {
  /** Where the word that is being written begins. */
  from: number;
  options: Option[];
  /** The column whose value comes next. */
  of?: Compared;
}

const MOST = 30;
const COMPARE = ["=", "!="];
const ORDER = ["<", "<=", ">", ">="];
const MATCH = ["~", "!~"];
const REST = ["in", "not in", "is null", "is not null"];
const MEANINGS: Record<string, string> = {
  "~": "matches, with * and ?",
  "!~": "does not match",
  in: "one of (…)",
  "not in": "none of (…)",
  "is null": "has no value",
  "is not null": "has a value",
};
/** After a number of a column with this unit; as src/scope_catalogue/literal.py reads them. */
const UNITS: Record<string, string[]> = { ns: ["ns", "us", "ms", "s", "m", "h"], bytes: ["B", "KiB", "MiB", "GiB", "TiB"], "B/s": ["B", "KiB", "MiB", "GiB"] };

/** Completions for the word before the cursor; `values` are values that the column has. */
export function complete(text: string, cursor: number, columns: Compared[], values: (column: Compared) => string[]): Completion {
  const from = wordAt(text.slice(0, cursor));
  const word = text.slice(from, cursor);
  const { expects, column: name, depth, wrong } = read(text.slice(0, from));
  if (wrong !== undefined) return { from, options: [] };
  const column = name === undefined ? undefined : meant(name, columns);
  const of = expects === "value" || expects === "item" ? column : undefined;
  const all = of ? valuesOf(of, word, values) : offered(expects, columns, column, depth);
  const begins = (option: string) => option.toLowerCase().startsWith(word.toLowerCase());
  const options = all.filter((one) => one.text !== word && (begins(one.text) || begins(one.text.replace(/^'/, ""))));
  return { from, options: options.slice(0, MOST), of };
}

function offered(expects: Expects, columns: Compared[], column: Compared | undefined, depth: number): Option[] {
  const words = (...all: string[]) => all.map((text) => ({ text, meaning: MEANINGS[text] ?? "" }));
  switch (expects) {
    case "term":
      return [...columns.map(({ name, meaning }) => ({ text: name, meaning })), ...words("not")];
    case "operator": {
      const kind = column && kindOf(column);
      const own = kind === "text" ? MATCH : kind === "truth" || kind === "list" ? [] : kind ? ORDER : [...ORDER, ...MATCH];
      return words(...COMPARE, ...own, ...REST);
    }
    case "in":
      return words("in");
    case "null or not":
      return words("null", "not null");
    case "null":
      return words("null");
    case "list":
      return words("(");
    case "more":
      return words(",", ")");
    case "joint":
      return words("and", "or", ...(depth > 0 ? [")"] : []));
    default:
      return [];
  }
}

/** Values of a column; after a number, its units. */
function valuesOf(column: Compared, word: string, values: (column: Compared) => string[]): Option[] {
  const number = /^-?\d+(\.\d+)?/.exec(word)?.[0];
  const units = number === undefined ? [] : (UNITS[column.unit] ?? []).map((unit) => number + unit);
  const truths = kindOf(column) === "truth" ? ["true", "false"] : [];
  const seen = values(column).map((value) => literal(value, column));
  return [...truths, ...(column.names ?? []), ...seen, ...units].map((text) => ({ text, meaning: "" }));
}

/** A value as the grammar takes it. */
export function literal(value: unknown, column: Pick<Column, "type">): string {
  if (column.type.startsWith("dictionary") || column.type === "string") return `'${String(value).replaceAll("'", "''")}'`;
  return String(value);
}

/** A filter for rows that meet both of these, as far as they are given. */
export function both(one: string | undefined, other: string | undefined): string | undefined {
  return one && other ? `${inside(one)} and ${inside(other)}` : one || other || undefined;
}

function inside(where: string): string {
  return /\bor\b/i.test(where) ? `(${where})` : where;
}

/** A filter for rows in which a column has this value, added to another filter. */
export function also(where: string | undefined, column: Pick<Column, "name" | "type">, value: unknown, negated = false): string {
  const own =
    value === null || value === undefined
      ? `${column.name} is ${negated ? "not " : ""}null`
      : `${column.name} ${negated ? "!=" : "="} ${literal(value, column)}`;
  return both(where, own) ?? own;
}
