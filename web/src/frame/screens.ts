import { msg } from "@lingui/core/macro";

import type { Role } from "../api/session";

/** The screens, in the order of the navigation. */
export const SCREENS = [
  { to: "/", name: msg`Overview`, role: "viewer" },
  { to: "/nodes", name: msg`Nodes`, role: "viewer" },
  { to: "/processes", name: msg`Processes`, role: "viewer" },
  { to: "/tasks", name: msg`Tasks`, role: "viewer" },
  { to: "/explore", name: msg`Explore`, role: "viewer" },
  { to: "/why", name: msg`Why`, role: "viewer" },
  { to: "/flames", name: msg`Flames`, role: "viewer" },
  { to: "/llm", name: msg`LLM`, role: "viewer" },
  { to: "/gpu", name: msg`GPU`, role: "viewer" },
  { to: "/python", name: msg`Python`, role: "viewer" },
  { to: "/syscalls", name: msg`Syscalls and files`, role: "viewer" },
  { to: "/scheduling", name: msg`Scheduling`, role: "viewer" },
  { to: "/traces", name: msg`Traces`, role: "viewer" },
  { to: "/users", name: msg`Users`, role: "viewer" },
] as const satisfies readonly { to: string; name: unknown; role: Role }[];
