/** What the screen Why says of a process. */
import { cardsOf, faults, picture, settled, wide } from "./page.mjs";

export default async function ({ given, open, tell }) {
  const { page, wrong } = await open();
  await page.goto(`${given.base}/why?pid=${given.pid}&since=1h`);
  await page.waitForSelector(".sentence");
  await settled(page);
  await picture(page, `${given.pictures}/why-of-one-${given.theme}.jpg`);
  tell({ sentence: await page.innerText(".sentence"), cards: await cardsOf(page), wrong, faults: await faults(page), wide: await wide(page) });
}
