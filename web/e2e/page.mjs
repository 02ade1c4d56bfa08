/** Pages of people, and what is looked at on each. */
import { AxeBuilder } from "@axe-core/playwright";

const SIZE = { width: 1280, height: 720 };
const GRAVE = ["serious", "critical"];
const REPEATED = [".rows-row", ".plain tbody tr", ".streams li", ".choices > *", ".trace-streams > *", ".bars li", "option"];
const LOGINS = new Map(); // cookies by person, so that each signs in once for as long as they are good
const LOGIN_MS = 10 * 60_000; // then a page would refresh its own copy of them, and others' copies end

/**
 * A page of a person, or of nobody; `wrong` gets each error of the page, of its console, and each answer of the server
 * that failed.
 */
export async function opened(browser, { base, email, password, language = "en", theme = "dark", size = SIZE }) {
  if (Date.now() > LOGINS.get(email)?.until) LOGINS.delete(email);
  // Without motion: what moves is drawn 60 times a second, for which a machine without a GPU needs a core.
  const looks = { viewport: size, colorScheme: theme, reducedMotion: "reduce" };
  const context = await browser.newContext({ ...looks, storageState: LOGINS.get(email)?.cookies });
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
  page.on("response", (answer) => answer.status() >= 400 && ![401, 503].includes(answer.status()) && wrong.push(refusal(answer)));
  page.setDefaultTimeout(300_000); // a young agent on a busy machine tries its probes for minutes
  if (email && !LOGINS.has(email)) {
    await page.goto(`${base}/sign-in`);
    await page.fill("#email", email);
    await page.fill("#password", password);
    await page.keyboard.press("Enter");
    await page.waitForSelector(".frame");
    LOGINS.set(email, { cookies: await context.storageState(), until: Date.now() + LOGIN_MS });
  }
  return { page, wrong };
}

/** What is told of an answer that failed: status, address and, as soon as it is read, the detail of its problem document. */
function refusal(answer) {
  const told = { text: `${answer.status()} ${answer.url()}`, toJSON: () => told.text };
  answer.json().then(({ detail }) => (told.text += `: ${detail}`), () => {}); // without a document, the address has to do
  return told;
}

/** Grave faults of accessibility, as lines of text; by some rules only, or of a part of the page, if they are named. */
export async function faults(page, { rules, part } = {}) {
  // Of lists, whose lines are alike, the first ones are looked at; and only faults are described: the rest takes long.
  const only = rules ? { runOnly: { type: "rule", values: rules } } : {};
  const all = new AxeBuilder({ page }).options({ resultTypes: ["violations"], preload: false, ...only }).setLegacyMode(true);
  if (part) all.include(part);
  const { violations } = await REPEATED.reduce((axe, each) => axe.exclude(`${each}:nth-child(n+4)`), all).analyze();
  const grave = violations.filter((one) => GRAVE.includes(one.impact));
  return grave.map((one) => `${one.id}: ${one.nodes.map((node) => node.target.join(" ")).slice(0, 3).join(", ")}`);
}

/** Waits until nothing of the screen is loading. */
export async function settled(page) {
  await page.waitForSelector("#screen, .sign-in");
  await page.waitForFunction(() => !document.querySelector(".loading"));
  await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))); // charts, too
}

/** The lines of lists and tables on the page's cards, by the cards' heads. */
export async function cardsOf(page) {
  const found = {};
  for (const card of await page.locator(".card:has(> h2)").all()) {
    found[await card.locator("> h2").innerText()] = await card.locator("li, tbody tr").allInnerTexts();
  }
  return found;
}

/** Of each chart, whether a line is drawn in it: something with a colour, as axes have none. */
export async function drawn(page) {
  return page.locator(".chart canvas").evaluateAll((charts) =>
    charts.map((chart) => {
      const { data } = chart.getContext("2d").getImageData(0, 0, chart.width || 1, chart.height || 1);
      for (let i = 0; i < data.length; i += 4) {
        const [red, green, blue, alpha] = data.slice(i, i + 4);
        if (alpha > 128 && Math.max(red, green, blue) - Math.min(red, green, blue) > 60) return true;
      }
      return false;
    }),
  );
}

/** How much wider than the window the page is, in pixels. */
export async function wide(page) {
  return page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
}

const TALLEST = 2600; // of a picture, pixels: a list of all processes goes on for long

/** A picture of the whole page, or of so much of it that a person looks at. As JPEG: a PNG of it takes long to write. */
export async function picture(page, path) {
  const [width, height] = await page.evaluate(() => [innerWidth, document.documentElement.scrollHeight]);
  const clip = { x: 0, y: 0, width, height: Math.min(height, TALLEST) };
  await page.screenshot({ path, fullPage: true, clip, type: "jpeg", quality: 80 });
}
