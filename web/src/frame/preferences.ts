import { i18n } from "@lingui/core";

import { learn } from "../parts/meaning";

export type Theme = "auto" | "light" | "dark";
export const LANGUAGES = { en: "English", zh: "简体中文" } as const;
export type Language = keyof typeof LANGUAGES;

/** What belongs to the person, not to the page: kept in this browser. */
export function theme(): Theme {
  const kept = localStorage.getItem("scope-theme");
  return kept === "light" || kept === "dark" ? kept : "auto";
}

export function setTheme(chosen: Theme): void {
  localStorage.setItem("scope-theme", chosen);
  if (chosen === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
}

function language(): Language {
  const kept = localStorage.getItem("scope-language") ?? navigator.language;
  return kept.startsWith("zh") ? "zh" : "en";
}

/** Loads the texts of a language, only when it is wanted. */
export async function speak(chosen: Language = language()): Promise<void> {
  const { messages } = await (chosen === "zh" ? import("../locales/zh.po") : import("../locales/en.po"));
  i18n.loadAndActivate({ locale: chosen, messages });
  document.documentElement.lang = chosen === "zh" ? "zh-Hans" : "en";
  localStorage.setItem("scope-language", chosen);
  void mean(chosen);
}

/** Loads the catalogue's words after the page's own, which the first view waits for. */
async function mean(chosen: Language): Promise<void> {
  if (chosen === "en") return learn({});
  const { meanings } = await import("../locales/meanings");
  if (i18n.locale !== chosen) return; // another one was chosen meanwhile
  learn(meanings);
  i18n.activate(chosen); // what is shown already is drawn again
}
