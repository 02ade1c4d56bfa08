/** One headless browser for all scripts of a run: each line of the input names a script and what it is given. */
import { createInterface } from "node:readline";

import { chromium } from "playwright-core";

import { opened } from "./page.mjs";

const PATIENCE_MS = 1_700_000; // the tests may take 1,800 s

/** What is empty or failed on a page, then all that it says. */
async function textsOf(page) {
  const states = await page.locator(".state").allInnerTexts().catch(String);
  const all = await page.innerText("body", { timeout: 5000 }).catch(String);
  return `${page.url()} says: ${JSON.stringify(states)}\n${all}`;
}

const browser = await chromium.launch({ executablePath: "/usr/bin/chromium-headless-shell", args: ["--no-sandbox"] });
const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
for await (const line of createInterface({ input: process.stdin })) {
  const { script, given } = JSON.parse(line);
  const contexts = browser.contexts();
  try {
    const { default: run } = await import(`./${script}.mjs`);
    const late = new Promise((_, reject) => setTimeout(() => reject(new Error(`${script} takes too long`)), PATIENCE_MS).unref());
    const ran = run({ given, open: (person = given) => opened(browser, { ...given, ...person }), tell: (told) => say({ told }) });
    await Promise.race([ran, late]);
    say({ done: true });
  } catch (error) {
    const pages = browser.contexts().filter((context) => !contexts.includes(context)).flatMap((context) => context.pages());
    const texts = await Promise.all(pages.map(textsOf));
    say({ failed: [error.stack, ...texts].join("\n\n") });
  }
  for (const context of browser.contexts()) {
    if (contexts.includes(context)) continue;
    for (const page of context.pages()) await page.unrouteAll({ behavior: "ignoreErrors" });
    await context.close();
  }
}
await browser.close();
