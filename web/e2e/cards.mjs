/** What the cards of a screen say, by their heads. */
import { cardsOf, faults, settled, wide } from "./page.mjs";

export default async function ({ given, open, tell }) {
  const { page, wrong } = await open();
  for (const [name, address] of Object.entries(given.screens)) {
    wrong.length = 0;
    await page.goto(given.base + address);
    await settled(page);
    await page.screenshot({ path: `${given.pictures}/${name}-cards.png`, fullPage: true });
    tell({ name, cards: await cardsOf(page), wrong: [...wrong], faults: await faults(page), wide: await wide(page) });
  }
}
