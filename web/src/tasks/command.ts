import type { components } from "../api/schema";
import { quoted } from "../parts/command";

export type Value = string | number | boolean | string[];

export interface Definition {
  node?: string | null;
  probe: string;
  target?: components["schemas"]["Target"] | Record<string, string | number> | null;
  options?: Record<string, unknown> | null;
  where?: string | null;
  duration?: number | null;
}

/** The command that starts the same task. */
export function commandOf({ node, probe, target, options, where, duration }: Definition): string {
  const words = ["scope", "start", node || "local", probe];
  for (const [name, value] of Object.entries(target ?? {})) {
    if (value !== null && value !== undefined && value !== "") words.push(`--${name}`, String(value));
  }
  for (const [name, value] of Object.entries(options ?? {})) {
    words.push("-o", `${name}=${Array.isArray(value) ? value.join(",") : String(value)}`);
  }
  if (where) words.push("--where", where);
  if (duration) words.push("--duration", String(duration));
  return words.map(quoted).join(" ");
}
