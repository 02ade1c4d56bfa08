/** What the screen Why says of a process. */
import { faults, settled, wide } from "./page.mjs";

export default async function ({ given, open, tell }) {
  const { page, wrong } = await open();
  await page.goto(`${given.base}/why?pid=${given.pid}&since=5m`);
  await page.waitForSelector(".sentence");
  await settled(page);
  await page.screenshot({ path: `${given.pictures}/why-of-one-${given.theme}.png`, fullPage: true });
  const cards = {};
  for (const card of await page.locator(".card:has(> h2)").all()) {
    cards[await card.locator("> h2").innerText()] = await card.locator("li, tbody tr").allInnerTexts();
  }
  tell({ sentence: await page.innerText(".sentence"), cards, wrong, faults: await faults(page), wide: await wide(page) });
}
