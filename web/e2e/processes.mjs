/** Opens the tree of processes, takes the picture that the watched program waits for, and waits for its child's end. */
import { existsSync } from "node:fs";

import { faults, picture, settled, wide } from "./page.mjs";

export default async function ({ given, open, tell }) {
  const { page, wrong } = await open();
  await page.goto(`${given.base}/processes?since=2m&find=${given.find}`);
  await settled(page);
  const waited = !existsSync(given.begin);
  await page.screenshot({ path: given.begin });
  const row = (name) => page.locator("tbody tr").filter({ has: page.locator(`[title*="${name}"]`) });
  const told = async (name) => ({
    cells: await row(name).locator("td").allInnerTexts(),
    indent: await row(name).locator(".branch").evaluate((branch) => parseInt(branch.style.paddingInlineStart)),
  });
  await row(given.child).locator("td:nth-child(4):has-text('3')").waitFor();
  const [parent, child] = [await told(given.parent), await told(given.child)];
  await picture(page, `${given.pictures}/processes-of-one-${given.theme}.jpg`);
  const faulty = await faults(page);
  await row(given.parent).locator("button[aria-expanded]").click();
  const why = await row(given.parent).locator(".branch a").getAttribute("href");
  const closed = await row(given.child).count();
  const filtered = async (address, where) => {
    await page.goto(`${given.base}${address}?since=2m&where=${encodeURIComponent(where)}`);
    await settled(page);
    return { pids: await page.locator("tbody td:nth-child(2)").allInnerTexts(), says: await page.innerText("#screen"), told: await page.innerText(".applied") };
  };
  const ended = await filtered("/processes", `pid = ${child.cells[1]}`);
  const nobody = await filtered("/why", "comm = 'nobody of this name'");
  tell({ ended, nobody, waited, parent, child, closed, why, faults: faulty, wide: await wide(page), wrong });
}
