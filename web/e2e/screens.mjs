/** Opens each address in one language and theme, takes its picture, and tells what is wrong with it. */
import { faults, given, opened, settled, told } from "./browser.mjs";

const { browser, page, wrong } = await opened(given);
for (const [name, address] of Object.entries(given.screens)) {
  wrong.length = 0;
  await page.goto(given.base + address);
  await settled(page);
  await page.screenshot({ path: `${given.pictures}/${name}-${given.language}-${given.theme}.png`, fullPage: true });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  told({ name, wrong: [...wrong], faults: await faults(page), wide, text: await page.innerText("body") });
}
await browser.close();
