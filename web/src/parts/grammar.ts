/** What may follow in a filter; the grammar is that of src/scope_catalogue/where.py, and tests/filter_cases.json holds both to it. */
export type Expects =
  | "term" // a column, `not` or a parenthesis
  | "operator"
  | "in" // after COLUMN `not`
  | "null or not" // after `is`
  | "null"
  | "list" // the parenthesis after `in`
  | "value"
  | "item" // a value in a list
  | "more" // a comma or the end of a list
  | "joint"; // `and`, `or`, a closing parenthesis, or the end

/** A filter, as far as it could be read. */
export interface Read {
  /** What may come at its end, or where it went wrong. */
  expects: Expects;
  /** The column of the newest comparison. */
  column?: string;
  /** All columns that are compared, as they are written. */
  columns: string[];
  /** Parentheses that are open. */
  depth: number;
  /** Where something else came than what is expected, in characters from its begin. */
  wrong?: number;
}

const TOKEN = /\s*(?:('(?:[^']|'')*'(?!')|"(?:[^"]|"")*"(?!"))|(==|!=|<=|>=|!~|[=<>~(),])|([^\s'"()=!<>~,]+))/y;
const KEYWORDS = ["and", "or", "not", "in", "is", "null"];
const OPERATORS = ["=", "==", "!=", "<", "<=", ">", ">=", "~", "!~"];

interface Token {
  kind: "text" | "sign" | "word";
  text: string;
  place: number;
}

/** Reads a filter from its begin. */
export function read(text: string): Read {
  const found: Read = { expects: "term", columns: [], depth: 0 };
  const { tokens, rest } = tokensOf(text);
  for (const token of tokens) {
    const next = after(found, token);
    if (!next) return { ...found, wrong: token.place };
    found.expects = next;
  }
  return rest === undefined ? found : { ...found, wrong: rest };
}

/** Whether it is a whole filter. */
export function isWhole({ expects, depth, wrong }: Read): boolean {
  return expects === "joint" && depth === 0 && wrong === undefined;
}

/** Where the word begins that is being written at the end of a filter: at the end, if none is. */
export function wordAt(text: string): number {
  const { tokens, rest } = tokensOf(text);
  const last = tokens.at(-1);
  return rest ?? (last?.kind === "word" && last.place + last.text.length === text.length ? last.place : text.length);
}

/** The tokens of a filter; `rest` is where one begins that is none, such as a text without its second quote. */
function tokensOf(text: string): { tokens: Token[]; rest?: number } {
  const tokens: Token[] = [];
  const end = text.trimEnd().length;
  let place = 0;
  while (place < end) {
    TOKEN.lastIndex = place;
    const found = TOKEN.exec(text);
    if (!found) return { tokens, rest: end - text.slice(place, end).trimStart().length };
    const [whole, quoted, sign] = found;
    const own = whole.trimStart();
    place = TOKEN.lastIndex;
    tokens.push({ kind: quoted ? "text" : sign ? "sign" : "word", text: own, place: place - own.length });
  }
  return { tokens };
}

/** What may come after a token; undefined: the token may not come here. */
function after(found: Read, { kind, text }: Token): Expects | undefined {
  const word = kind === "word" ? text.toLowerCase() : "";
  const isSign = (sign: string) => kind === "sign" && text === sign;
  const isValue = kind === "text" || (kind === "word" && !KEYWORDS.includes(word));
  switch (found.expects) {
    case "term":
      if (word === "not") return "term";
      if (isSign("(")) {
        found.depth += 1;
        return "term";
      }
      if (kind !== "word" || !isValue) return undefined;
      found.column = text;
      found.columns.push(text);
      return "operator";
    case "operator":
      if (word === "is") return "null or not";
      if (word === "not") return "in";
      if (word === "in") return "list";
      return kind === "sign" && OPERATORS.includes(text) ? "value" : undefined;
    case "in":
      return word === "in" ? "list" : undefined;
    case "null or not":
      return word === "not" ? "null" : word === "null" ? "joint" : undefined;
    case "null":
      return word === "null" ? "joint" : undefined;
    case "list":
      return isSign("(") ? "item" : undefined;
    case "value":
      return isValue ? "joint" : undefined;
    case "item":
      return isValue ? "more" : undefined;
    case "more":
      return isSign(",") ? "item" : isSign(")") ? "joint" : undefined;
    case "joint":
      if (word === "and" || word === "or") return "term";
      if (!isSign(")") || found.depth === 0) return undefined;
      found.depth -= 1;
      return "joint";
  }
}

interface Named {
  name: string;
  unit?: string;
}

/** The column that a filter means: the unit at the end of its name may be left out, if only one column matches. */
export function meant<T extends Named>(name: string, columns: T[]): T | undefined {
  const exact = columns.find((one) => one.name === name);
  if (exact) return exact;
  const found = columns.filter((one) => one.unit && one.name.slice(0, one.name.lastIndexOf("_")) === name);
  return found.length === 1 ? found[0] : undefined;
}

/** A stream: what its rows, and their processes, are compared by. */
interface Filtered {
  columns: Named[];
  of_process: Named[];
}

/** Columns of a filter that a stream does not have. */
export function lacking(where: string | undefined, stream: Filtered | undefined): string[] {
  if (!where) return [];
  return [...new Set(read(where).columns.filter((name) => !meant(name, stream ? [...stream.columns, ...stream.of_process] : [])))];
}

/** The page's filter, if it is one and the stream has its columns. */
export function filterOf({ where }: { where?: string }, stream: Filtered | undefined): string | undefined {
  return where && isWhole(read(where)) && lacking(where, stream).length === 0 ? where : undefined;
}
