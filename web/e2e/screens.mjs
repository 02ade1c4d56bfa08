/** Opens each address in one language and theme, takes its picture, and tells what is wrong with it. */
import { faults, settled, wide } from "./page.mjs";

export default async function ({ given, open, tell }) {
  const { page, wrong } = await open();
  for (const [name, address] of Object.entries(given.screens)) {
    wrong.length = 0;
    await page.goto(given.base + address);
    await settled(page);
    await page.screenshot({ path: `${given.pictures}/${name}-${given.kind}.png`, fullPage: true });
    tell({ name, wrong: [...wrong], faults: given.axe ? await faults(page) : [], wide: await wide(page), text: await page.innerText("body") });
  }
}
