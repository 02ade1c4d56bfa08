import { type Column, type Compared, kindOf } from "../api/columns";

/** What may come at the cursor of a filter, by its grammar (src/scope_catalogue/where.py). */
export interface Completion {
  /** Where the word that is being written begins. */
  from: number;
  options: { text: string; meaning: string }[];
}

const TOKEN = /\s*(?:('(?:[^']|'')*'?|"(?:[^"]|"")*"?)|(==|!=|<=|>=|!~|[=<>~(),])|([^\s'"()=!<>~,]+))/y;
const TEXTS = ["=", "!=", "~", "!~", "in", "is null"];
const NUMBERS = ["=", "!=", "<", "<=", ">", ">=", "in", "is null"];
const MEANINGS: Record<string, string> = {
  "~": "matches, with * and ?",
  "!~": "does not match",
  in: "one of (…)",
  "is null": "has no value",
};

type Expects = "column" | "operator" | "value" | "joint";

/** Completions for the word before the cursor; `values` are values of columns that were seen in rows. */
export function complete(text: string, cursor: number, columns: Compared[], values: (column: string) => string[]): Completion {
  let expects: Expects = "column";
  let column: Compared | undefined;
  let place = 0;
  let from = cursor;
  let word = "";
  TOKEN.lastIndex = 0;
  for (;;) {
    TOKEN.lastIndex = place;
    const found = TOKEN.exec(text);
    if (!found || TOKEN.lastIndex > cursor) break;
    const token = found[1] ?? found[2] ?? found[3] ?? "";
    place = TOKEN.lastIndex;
    if (place === cursor && found[3] !== undefined) {
      from = place - token.length;
      word = token;
      break;
    }
    if (expects === "column" && found[3] && !["not", "and", "or"].includes(token.toLowerCase())) {
      column = columns.find((one) => one.name === token) ?? column;
      expects = "operator";
    } else if (expects === "operator" && (found[2] || ["in", "is", "not"].includes(token.toLowerCase()))) {
      expects = token === "(" ? "column" : "value";
    } else if (expects === "value") {
      if (token !== "(" && token !== "," && token.toLowerCase() !== "not") expects = "joint";
    } else if (expects === "joint") {
      if (["and", "or"].includes(token.toLowerCase())) expects = "column";
      else if (token === ",") expects = "value";
    }
  }
  const options = offered(expects, columns, column, values).filter(({ text }) => text.toLowerCase().startsWith(word.toLowerCase()) && text !== word);
  return { from, options: options.slice(0, 30) };
}

function offered(expects: Expects, columns: Compared[], column: Compared | undefined, values: (column: string) => string[]) {
  if (expects === "column") return columns.map((one) => ({ text: one.name, meaning: one.meaning }));
  if (expects === "joint") return [{ text: "and", meaning: "" }, { text: "or", meaning: "" }];
  if (expects === "value") return column ? values(column.name).map((value) => ({ text: literal(value, column), meaning: "" })) : [];
  const isText = !column || kindOf(column) === "text";
  return (isText ? TEXTS : NUMBERS).map((text) => ({ text, meaning: MEANINGS[text] ?? "" }));
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
