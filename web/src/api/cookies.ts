/** The proof that a change comes from this page: the server compares it with the login (see accounts/csrf.py). */
export const CSRF_HEADER = "X-Scope-CSRF";

const NAME = "scope-csrf-cookie"; // other servers on this host have other cookies, and a storage of their own

/** Keeps the name of this server's cookie, as the login told it. */
export function keepCsrfCookie(name: string): void {
  localStorage.setItem(NAME, name);
}

export function csrfToken(): string {
  const begin = `${localStorage.getItem(NAME)}=`;
  const found = document.cookie.split("; ").find((one) => one.startsWith(begin));
  return found ? found.slice(begin.length) : "";
}
