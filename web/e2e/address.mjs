/** Brings pages into a state, loads them again, as who gets a link does, and tells what was seen before and after. */
import { settled } from "./page.mjs";

export default async function ({ given, open, tell }) {
  const { page, wrong } = await open();
  const twice = async (name, look) => {
    await settled(page);
    await page.waitForTimeout(300); // the address follows
    const before = await look();
    await page.reload();
    await settled(page);
    tell({ name, before, after: await look(), wrong });
  };

  await page.goto(`${given.base}/start?probe=syscalls`);
  await settled(page);
  await page.selectOption("#option-mode", "summary");
  await page.fill("#option-interval_ms", "500");
  await page.click("summary");
  await page.locator("#comm").pressSequentially("python3");
  await page.fill("#duration", "77");
  await twice("start", () => page.innerText(".command code"));

  const search = `since=${given.since}&until=${given.until}`;
  await page.goto(`${given.base}/explore/${given.stream}?${search}`);
  await page.click(".rows-row >> nth=3");
  await page.waitForSelector(".details");
  await twice("row", () => page.innerText(".details"));

  await page.goto(`${given.base}/explore/${given.stream}?view=live`);
  await page.waitForSelector(".rows-row");
  await page.click("button:has-text('Pause')");
  await twice("live", async () => {
    await page.waitForSelector(".rows-row");
    return [await page.innerText("button[aria-pressed=true]:has-text('Go on')"), await page.innerText(".rows-row >> nth=0 >> [role=gridcell] >> nth=0")];
  });

  await page.goto(`${given.base}/flames/${given.stacks}?${search}`);
  await page.waitForSelector(".flames-scroll");
  await page.selectOption("select[aria-label='Compared with']", "before");
  await page.selectOption("select[aria-label='Compared with']", "other");
  await page.click("button:has-text('Inverted')");
  await settled(page);
  await page.locator("[aria-label='Find a function']").pressSequentially("py");
  await page.focus(".flames-scroll");
  for (const key of ["ArrowDown", "ArrowDown", "Enter"]) await page.keyboard.press(key);
  await twice("flames", async () => {
    await page.waitForSelector("button:has-text('Whole graph')");
    const typed = await page.locator("input").evaluateAll((all) => all.map((one) => one.value));
    const pressed = await page.locator("[aria-pressed=true]").allInnerTexts();
    return { typed, pressed, key: await page.innerText(".flames-key") };
  });
}
