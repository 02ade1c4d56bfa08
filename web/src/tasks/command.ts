import type { components } from "../api/schema";
import { quoted } from "../parts/command";
import { type Labels, writeLabels } from "./labels";

export type Value = string | number | boolean | string[];

export interface Definition {
  node?: string | null;
  /** Instead of a machine: all that have these labels. */
  labels?: Labels;
  probe: string;
  /** Instead of a probe, and with options and filters of its own. */
  template?: string;
  target?: components["schemas"]["Target"] | Record<string, string | number> | null;
  options?: Record<string, unknown> | null;
  where?: string | null;
  duration?: number | null;
}

/** The command that starts the same. */
export function commandOf({ node, labels, probe, template, target, options, where, duration }: Definition): string {
  const words = ["scope", "start", labels ? writeLabels(labels) : node || "local", template ? `template:${template}` : probe];
  for (const [name, value] of Object.entries(target ?? {})) {
    if (value !== null && value !== undefined && value !== "") words.push(`--${name}`, String(value));
  }
  if (!template) {
    for (const [name, value] of Object.entries(options ?? {})) {
      words.push("-o", `${name}=${Array.isArray(value) ? value.join(",") : String(value)}`);
    }
    if (where) words.push("--where", where);
  }
  if (duration) words.push("--duration", String(duration));
  return words.map(quoted).join(" ");
}
