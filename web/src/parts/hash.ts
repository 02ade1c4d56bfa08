const BEGIN = 0x811c9dc5;
const PRIME = 0x01000193;

/** A number of 32 bits for a text (FNV-1a): equal texts have equal ones. */
export function hashed(text: string): number {
  let found = BEGIN;
  for (let at = 0; at < text.length; at += 1) found = Math.imul(found ^ text.charCodeAt(at), PRIME);
  return found >>> 0;
}
