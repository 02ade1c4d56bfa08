import type { MessageDescriptor } from "@lingui/core";
import { msg } from "@lingui/core/macro";

import { type Column, type Compared, kindOf } from "../api/columns";
import { type Expects, meant, read, wordAt } from "./grammar";

interface Option {
  text: string;
  /** Of a column, in the catalogue's words; of an operator, in the page's. */
  meaning: string | MessageDescriptor;
}

/** What may come at the cursor of a filter. */
export interface Completion {
  /** Where the word that is being written begins. */
  from: number;
  options: Option[];
  /** How many more there are. */
  hidden: number;
  /** The column whose value comes next, and what is written of the value. */
  of?: { column: Compared; written: string };
}

const MOST = 30;
const COMPARE = ["=", "!="];
const ORDER = ["<", "<=", ">", ">="];
const MATCH = ["~", "!~"];
const ONE_OF = ["in", "not in"];
const NULLS = ["is null", "is not null"];
const MEANINGS: Record<string, MessageDescriptor> = {
  "~": msg`matches, with * and ?`,
  "!~": msg`does not match`,
  in: msg`one of (…)`,
  "not in": msg`none of (…)`,
  "is null": msg`has no value`,
  "is not null": msg`has a value`,
};
/** After a number of a column with this unit; as src/scope_catalogue/literal.py reads them. */
const UNITS: Record<string, string[]> = { ns: ["ns", "us", "ms", "s", "m", "h"], bytes: ["B", "KiB", "MiB", "GiB", "TiB"], "B/s": ["B", "KiB", "MiB", "GiB"] };

/** Completions for the word before the cursor; `values` are values that the column has. */
export function complete(text: string, cursor: number, columns: Compared[], values: (column: Compared) => string[]): Completion {
  const from = wordAt(text.slice(0, cursor));
  const word = text.slice(from, cursor);
  const { expects, column: name, depth, wrong } = read(text.slice(0, from));
  if (wrong !== undefined) return { from, options: [], hidden: 0 };
  const column = name === undefined ? undefined : meant(name, columns);
  const begins = (option: string) => option.toLowerCase().startsWith(word.toLowerCase());
  if ((expects === "value" || expects === "item") && column) {
    const options = valuesOf(column, word, values(column)).filter((text) => text !== word).map((text) => ({ text, meaning: "" }));
    return { from, ...first(options), of: { column, written: bare(word) } };
  }
  const options = offered(expects, columns, column, depth).filter(({ text }) => text !== word && begins(text));
  return { from, ...first(options) };
}

function first(options: Option[]): Pick<Completion, "options" | "hidden"> {
  return { options: options.slice(0, MOST), hidden: Math.max(0, options.length - MOST) };
}

function offered(expects: Expects, columns: Compared[], column: Compared | undefined, depth: number): Option[] {
  const words = (...all: string[]) => all.map((text) => ({ text, meaning: MEANINGS[text] ?? "" }));
  switch (expects) {
    case "term":
      return [...columns.map(({ name, meaning }) => ({ text: name, meaning })), ...words("not", "(")];
    case "operator": {
      const kind = column && kindOf(column);
      if (kind === "list") return words(...NULLS);
      const own = kind === "text" ? MATCH : kind === "truth" ? [] : kind ? ORDER : [...ORDER, ...MATCH];
      return words(...COMPARE, ...own, ...ONE_OF, ...NULLS);
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

/** Values of a column that a word may become: texts that contain it, names and units of numbers that begin with it. */
function valuesOf(column: Compared, word: string, values: string[]): string[] {
  const written = bare(word).toLowerCase();
  if (kindOf(column) === "text") {
    const quote = word.startsWith('"') ? '"' : "'";
    return values.filter((value) => value.toLowerCase().includes(written)).map((value) => quoted(value, quote));
  }
  const begins = (text: string) => text.toLowerCase().startsWith(written);
  const truths = kindOf(column) === "truth" ? ["true", "false"] : [];
  const names = (column.names ?? []).filter((name) => begins(name) || begins(name.replace(/^-/, "")));
  const number = /^[+-]?\d+(\.\d*)?/.exec(word)?.[0];
  const units = number === undefined ? [] : (UNITS[column.unit] ?? []).map((unit) => number + unit);
  return [...names, ...[...truths, ...units].filter(begins)];
}

/** What is written of a text, without its quotes. */
function bare(word: string): string {
  const [quote] = word;
  return quote === "'" || quote === '"' ? word.slice(1).replaceAll(quote + quote, quote) : word;
}

function quoted(value: string, quote = "'"): string {
  return quote + value.replaceAll(quote, quote + quote) + quote;
}

/** A value as the grammar takes it. */
export function literal(value: unknown, column: Pick<Column, "type">): string {
  return kindOf(column) === "text" ? quoted(String(value)) : String(value);
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
