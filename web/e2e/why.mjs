/** What the screen Why says of a process, with a filter that means some of its rows. */
import { cardsOf, faults, picture, settled, wide } from "./page.mjs";

export default async function ({ given, open, tell }) {
  const { page, wrong } = await open();
  const asked = page.waitForRequest(/api\/v1\/flamegraph/);
  await page.goto(`${given.base}/why?pid=${given.pid}&since=1h&where=${encodeURIComponent(given.where)}`);
  await page.waitForSelector(".sentence");
  await settled(page);
  await picture(page, `${given.pictures}/why-of-one-${given.theme}.jpg`);
  const where = new URL((await asked).url()).searchParams.get("where");
  const applied = await page.innerText(".applied");
  tell({ where, applied, sentence: await page.innerText(".sentence"), cards: await cardsOf(page), wrong, faults: await faults(page), wide: await wide(page) });
}
