/** Starts a template and a probe with a filter on the machines that have a label; tells what the page says of them. */
import { faults, picture, settled, wide } from "./page.mjs";

export default async function ({ given, open, tell }) {
  const { page, wrong } = await open();
  const shown = (name) => picture(page, `${given.pictures}/${name}.jpg`);
  const begin = async () => {
    const command = await page.innerText(".command code");
    await page.click("button[type=submit]");
    await page.waitForURL(/\/tasks\?.*group=/);
    await settled(page);
    const stop = page.locator("button:has-text('Stop all')");
    await stop.waitFor();
    const group = new URL(page.url()).searchParams.get("group");
    return { command, group, rows: await page.locator("tbody tr").allInnerTexts(), stop };
  };

  await page.goto(`${given.base}/start`);
  await settled(page);
  await page.click("button:has-text('All with these labels')");
  await page.click(`.labels button:has-text('${given.label}')`);
  await page.fill("#comm", given.comm);
  await page.click("button:has-text('A template')");
  await page.click("label:has(b:text-is('slow'))");
  const on = await page.innerText(".labels + p");
  await shown("start-template");
  const faulty = await faults(page);
  const template = await begin();
  await shown("tasks-together");
  await template.stop.click();
  await page.waitForSelector("button:has-text('Stop all')", { state: "detached" });

  await page.goto(`${given.base}/start?probe=syscalls&labels=${encodeURIComponent(given.label)}`);
  await settled(page);
  await page.fill("#comm", given.comm);
  await page.locator("form .filter input").pressSequentially("na");
  const offered = await page.locator("form .filter li code").allInnerTexts();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Tab");
  await page.keyboard.type("= 'getppid'");
  await page.keyboard.press("Enter");
  await page.waitForURL(/only=/);
  await shown("start-filter");
  const filtered = await begin();
  tell({
    on,
    offered,
    faults: faulty,
    wide: await wide(page),
    wrong,
    started: [template, filtered].map(({ command, group, rows }) => ({ command, group, rows })),
  });
}
