/** A headless browser that is signed in, or not, and notes whatever goes wrong on its pages. */
import { AxeBuilder } from "@axe-core/playwright";
import { chromium } from "playwright-core";

const SIZE = { width: 1280, height: 720 };
const GRAVE = ["serious", "critical"];

/** Opens a page; `wrong` gets each error of the page, of its console, and each answer of the server that failed. */
export async function opened({ base, email, password, language = "en", theme = "dark", size = SIZE }) {
  const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
  const context = await browser.newContext({ viewport: size, colorScheme: theme });
  await context.addInitScript(
    ([language, theme]) => {
      localStorage.setItem("scope-language", language);
      localStorage.setItem("scope-theme", theme);
    },
    [language, theme],
  );
  const page = await context.newPage();
  const wrong = [];
  page.on("console", (said) => {
    const counts = said.type() === "error" || said.text().startsWith("Uncompiled message"); // a text without translation
    if (counts && !/status of (401|503)/.test(said.text())) wrong.push(said.text());
  });
  page.on("pageerror", (error) => wrong.push(String(error)));
  page.on("response", (answer) => answer.status() >= 400 && ![401, 503].includes(answer.status()) && wrong.push(`${answer.status()} ${answer.url()}`));
  if (email) {
    await page.goto(`${base}/sign-in`);
    await page.fill("#email", email);
    await page.fill("#password", password);
    await page.keyboard.press("Enter");
    await page.waitForSelector(".frame");
  }
  return { browser, page, wrong };
}

/** Grave faults of accessibility, as lines of text. */
export async function faults(page) {
  const { violations } = await new AxeBuilder({ page }).analyze();
  const grave = violations.filter((one) => GRAVE.includes(one.impact));
  return grave.map((one) => `${one.id}: ${one.nodes.map((node) => node.target.join(" ")).slice(0, 3).join(", ")}`);
}

/** Waits until nothing of the screen is loading. */
export async function settled(page) {
  await page.waitForSelector("#screen, .sign-in");
  await page.waitForFunction(() => !document.querySelector(".loading"), undefined, { timeout: 120_000 });
  await page.waitForTimeout(250); // charts are drawn in the next frame
}

/** What the test gave, as JSON in the first argument. */
export const given = JSON.parse(process.argv[2]);

export function told(answer) {
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
