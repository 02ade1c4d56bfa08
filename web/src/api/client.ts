import createClient from "openapi-fetch";

import { fetching } from "./fetching";
import { ApiError, errorOf } from "./problem";
import type { components, paths } from "./schema";

type Problem = components["schemas"]["Problem"];

/** Typed calls of the API, generated from its OpenAPI document. */
export const api = createClient<paths, "application/json">({ baseUrl: location.origin, fetch: fetching });

interface Answered<T> {
  data?: T;
  response: Response;
  error?: unknown;
}

/** The data of a call. Throws an ApiError if it was refused. */
export async function data<T>(call: Promise<Answered<T>>): Promise<T> {
  const { data, error, response } = await call;
  if (data !== undefined && response.ok) return data;
  const problem = error as Partial<Problem> | undefined;
  throw new ApiError(response.status, problem?.detail ?? response.statusText, problem?.errors ?? []);
}

export type Query = Record<string, string | number | boolean | undefined>;

/** The address of a resource below /api/v1; what is undefined is left out. */
export function address(path: string, query: Query = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined);
  const search = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
  return `/api/v1/${path}${search.size ? `?${search}` : ""}`;
}

/** The bytes of an answer that is no JSON, such as Arrow. */
export async function bytes(path: string, query: Query, signal?: AbortSignal): Promise<ArrayBuffer> {
  const answer = await fetching(new Request(address(path, query), { signal }));
  if (!answer.ok) throw await errorOf(answer);
  return answer.arrayBuffer();
}

/** The answer of a resource whose rows differ by stream, so that its type is ours. */
export async function json<T>(path: string, query: Query, signal?: AbortSignal): Promise<T> {
  const answer = await fetching(new Request(address(path, query), { signal }));
  if (!answer.ok) throw await errorOf(answer);
  return (await answer.json()) as T;
}
