/** The proof that a change comes from this page: the server compares it with the login (see accounts/csrf.py). */
export const CSRF_HEADER = "X-Scope-CSRF";

export function csrfToken(): string {
  const found = document.cookie.split("; ").find((one) => one.startsWith("scope_csrf="));
  return found ? found.slice("scope_csrf=".length) : "";
}
