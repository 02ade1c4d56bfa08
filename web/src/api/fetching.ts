import { CSRF_HEADER, csrfToken } from "./cookies";
import { ApiError, errorOf } from "./problem";

const REFRESH = "/api/v1/auth/refresh";
const PROOFS = /\/auth\/(login|logout|register|refresh)$/; // a 401 of these is no access token that has expired
const SILENCE_MS = 30_000; // after which a server counts as away

/** Called when the login has ended. */
let whenSignedOut = (): void => undefined;

export function onSignedOut(act: () => void): void {
  whenSignedOut = act;
}

/**
 * As `fetch`, with the login's cookies and proof. If the access token has expired, gets the next one and asks again:
 * tabs take turns, because a refresh token is valid once.
 */
export async function fetching(input: Request): Promise<Response> {
  const again = input.clone();
  const answer = await sent(input);
  if (answer.status !== 401 || PROOFS.test(input.url)) return answer;
  if (!(await refreshed())) {
    whenSignedOut();
    return answer;
  }
  return sent(again);
}

async function sent(request: Request): Promise<Response> {
  if (request.method !== "GET") request.headers.set(CSRF_HEADER, csrfToken() || "console");
  const patience = AbortSignal.timeout(SILENCE_MS);
  try {
    return await fetch(request, { signal: AbortSignal.any([request.signal, patience]) });
  } catch (error) {
    if (request.signal.aborted) throw error;
    throw new ApiError(0, "no answer from the server");
  }
}

async function refreshed(): Promise<boolean> {
  const before = csrfToken();
  if (!before) return false;
  return navigator.locks.request("scope-refresh", async () => {
    const since = Number(sessionStorage.getItem("scope-refreshed") ?? 0);
    if (Date.now() - since < 2000) return true; // this tab has just done it
    const request = new Request(REFRESH, {
      method: "POST",
      body: "{}",
      headers: { "Content-Type": "application/json", [CSRF_HEADER]: before },
    });
    const answer = await fetch(request);
    // Spent a moment ago: another tab has put the next tokens into the cookies already.
    const ok = answer.ok || (await errorOf(answer)).message.includes("a moment ago");
    if (ok) sessionStorage.setItem("scope-refreshed", String(Date.now()));
    return ok;
  });
}
