import { useState } from "react";

import { type Search, useAddress } from "../parts/search";
import type { Value } from "./command";
import type { Target } from "./picker";

/** What is chosen and typed to start a task, beside machines and probe. */
export interface Form {
  target: Target;
  options: Record<string, Value>;
  duration: string;
}

/** The form as the address says, which follows what is typed: a link or a reload of the page has it all. */
export function useForm(): [Form, (changes: Partial<Form>) => void] {
  const [search, change] = useAddress();
  const [form, setForm] = useState(() => readForm(search));
  const set = (changes: Partial<Form>) => {
    const next = { ...form, ...changes };
    setForm(next);
    change(writeForm(next), true);
  };
  return [form, set];
}

export function readForm({ pid, comm, exe, cgroup, container, options, duration = "" }: Search): Form {
  return { target: { pid: Number(pid) || undefined, comm, exe, cgroup, container }, options: readOptions(options), duration };
}

export function writeForm({ target: { pid, comm, exe, cgroup, container }, options, duration }: Form): Search {
  const written = Object.keys(options).length ? JSON.stringify(options) : undefined;
  return { pid: pid ? String(pid) : undefined, comm, exe, cgroup, container, options: written, duration: duration || undefined };
}

function readOptions(text: string | undefined): Form["options"] {
  try {
    const found: unknown = JSON.parse(text ?? "{}");
    return typeof found === "object" && found !== null && !Array.isArray(found) ? (found as Form["options"]) : {};
  } catch {
    return {};
  }
}
