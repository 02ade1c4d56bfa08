/** What the catalogue's words mean in Chinese, a file for each probe. */
const FILES = import.meta.glob<Record<string, string>>("./zh/*.json", { eager: true, import: "default" });

export const meanings: Record<string, string> = Object.assign({}, ...Object.values(FILES));
