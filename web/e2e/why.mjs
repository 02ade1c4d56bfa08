/** What the screen Why says of a process. */
import { cardsOf, faults, settled, wide } from "./page.mjs";

export default async function ({ given, open, tell }) {
  const { page, wrong } = await open();
  await page.goto(`${given.base}/why?pid=${given.pid}&since=5m`);
  await page.waitForSelector(".sentence");
  await settled(page);
  await page.screenshot({ path: `${given.pictures}/why-of-one-${given.theme}.png`, fullPage: true });
  tell({ sentence: await page.innerText(".sentence"), cards: await cardsOf(page), wrong, faults: await faults(page), wide: await wide(page) });
}
