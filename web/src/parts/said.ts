import type { I18n, MessageDescriptor } from "@lingui/core";

/** A sentence that servers and agents say in English, and the same made of what its pattern found. */
export type Sentence = [RegExp, (...found: string[]) => MessageDescriptor];

/** A sentence in the page's language; one that is not known, as it is. */
export function said(i18n: I18n, text: string, known: Sentence[]): string {
  for (const [pattern, told] of known) {
    const found = pattern.exec(text);
    if (found) return i18n._(told(...found.slice(1)));
  }
  return text;
}
