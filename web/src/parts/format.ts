/** Numbers, lengths of time and sizes as people read them. */
import type { Row } from "../api/answers";
import type { Column } from "../api/columns";

const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const LENGTHS: [number, string][] = [
  [86_400e9, "d"],
  [3600e9, "h"],
  [60e9, "min"],
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
];

function digits(value: number): string {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 || Number.isInteger(value) ? 0 : size >= 10 ? 1 : 2);
}

export function duration(ns: number): string {
  const [size, unit] = LENGTHS.find(([size]) => Math.abs(ns) >= size) ?? [1, "ns"];
  return `${digits(ns / size)} ${unit}`;
}

export function bytes(value: number): string {
  let size = value;
  let unit = 0;
  while (Math.abs(size) >= 1024 && unit < BINARY.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${digits(size)} ${BINARY[unit]}`;
}

export function count(value: number): string {
  if (Math.abs(value) < 10_000) return Number.isInteger(value) ? value.toLocaleString("en") : digits(value);
  return new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(value);
}

export function share(value: number): string {
  const percent = value * 100;
  return `${percent !== 0 && Math.abs(percent) < 10 ? percent.toFixed(1) : percent.toFixed(0)} %`;
}

/** A value with its unit, as the catalogue names it. */
export function quantity(value: number, unit: string): string {
  if (unit === "ns") return duration(value);
  if (unit === "bytes") return bytes(value);
  if (unit === "B/s") return `${bytes(value)}/s`;
  return unit ? `${count(value)} ${unit}` : count(value);
}

/** A value of a row as a line of text. */
export function cell(value: unknown, unit = "", hex = false): string {
  if (value === null || value === undefined) return "–";
  if (typeof value === "number") return hex ? `0x${value.toString(16)}` : unit ? quantity(value, unit) : String(value);
  if (Array.isArray(value)) return value.length > 24 ? `[${value.length}]` : value.map((one) => cell(one)).join(" ");
  return visible(String(value));
}

/** A value of a row as a line of text, with dots where it was cut. */
export function cellOf(row: Row, { name, unit, hex, cut_if }: Pick<Column, "name" | "unit" | "hex" | "cut_if">): string {
  const value = row[name];
  const text = cell(value, unit, hex);
  if (!cut_if || !row[cut_if] || value === null || value === undefined) return text;
  return Array.isArray(value) ? `${text} ...` : `...${text}`;
}

// Of watched programs: what turns the direction of text, or cannot be seen, is shown as a code instead.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

export function visible(text: string): string {
  return text.replace(UNSEEN, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

export function clock(time: Date | string, withSeconds = true): string {
  const second = withSeconds ? "2-digit" : undefined;
  return new Date(time).toLocaleTimeString("en", { hour: "2-digit", minute: "2-digit", second, hourCycle: "h23" });
}

export function moment(time: Date | string): string {
  const at = new Date(time);
  const day = at.toLocaleDateString("sv"); // 2026-01-31
  return `${day} ${clock(at)}`;
}

/** How long ago, in one unit. */
export function since(time: Date | string, now = Date.now()): string {
  return duration(Math.max(0, Math.floor((now - new Date(time).getTime()) / 1000)) * 1e9);
}

const OPERATORS = /^operator\b/;

/** A C++ name without the arguments of its templates and its parameters; a Python name without its file. */
export function shortName(name: string): string {
  const python = / \([^()]+:\d+\)$/.exec(name);
  if (python) return name.slice(0, python.index);
  if (!name.includes("(") && !name.includes("<")) return name;
  let depth = 0;
  let short = "";
  const plain = name.replace(/\(anonymous namespace\)/g, "{anonymous}");
  for (const character of plain) {
    if (character === "<" || character === "(") {
      if (depth === 0) short += character === "<" ? "<…" : "(…";
      depth += 1;
    }
    const closes = character === ">" || character === ")";
    if (closes && depth > 0) depth -= 1;
    if (depth === 0) short += character;
  }
  return depth === 0 && !OPERATORS.test(name) ? short.replace("(…)", "()") : name;
}
