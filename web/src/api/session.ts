import { queryOptions } from "@tanstack/react-query";

import { api, data } from "./client";
import { keepCsrfCookie } from "./cookies";

export type Role = "viewer" | "operator" | "admin";
const ORDER: Role[] = ["viewer", "operator", "admin"];

export interface Me {
  name: string;
  role: Role;
}

/** Who is signed in. */
export const me = queryOptions({
  queryKey: ["me"],
  queryFn: async ({ signal }) => (await data(api.GET("/api/v1/auth/me", { signal }))) as Me,
  staleTime: 60_000,
  retry: false,
});

/** Whether a role may do what the other may. */
export function includes(role: Role | undefined, other: Role): boolean {
  return role !== undefined && ORDER.indexOf(role) >= ORDER.indexOf(other);
}

export async function signIn(email: string, password: string): Promise<void> {
  const { csrf_cookie } = await data(api.POST("/api/v1/auth/login", { body: { email, password, cookie: true } }));
  keepCsrfCookie(csrf_cookie);
}

export async function signOut(): Promise<void> {
  await data(api.POST("/api/v1/auth/logout", {}));
}

/** Whether an account needs an invitation. */
export const registering = queryOptions({
  queryKey: ["registering"],
  queryFn: async ({ signal }) => (await data(api.GET("/api/v1/auth/register", { signal }))).who,
  staleTime: Infinity,
  retry: false,
});

export async function register(email: string, password: string, invitation: string): Promise<void> {
  await data(api.POST("/api/v1/auth/register", { body: { email, password, invitation } }));
}
