/** An address of this console; anything else leads to the overview. */
export function within(next: string | undefined): string {
  return next && /^\/(?![/\\])/.test(next) && !next.startsWith("/sign-in") ? next : "/";
}
