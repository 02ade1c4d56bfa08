/** What the catalogue says of probes, streams, columns, options and flame graphs, in the page's language, by the English text. */
let known: Record<string, string> = {};

/** Takes the meanings in another language; none: English. */
export function learn(meanings: Record<string, string>): void {
  known = meanings;
}

/** A meaning in the page's language; one that is not known, such as of a stream of a newer agent, as it is. */
export function meaning(text: string): string {
  return Object.hasOwn(known, text) ? (known[text] ?? text) : text;
}
