/** What charts show of the times in the middle of a window at which there are marks: annotations, losses, no task. */
import { settled } from "./page.mjs";

const OVER = { heatmap: [".heatmap", ".heat-told", 72], chart: [".chart .u-over", ".tooltip", 0] }; // the last: its axis

const appears = (page, chart) =>
  page.waitForSelector(chart, { timeout: 60_000 }).then(
    () => true,
    () => false,
  );

export default async function ({ given, open, tell }) {
  const { page } = await open();
  const window = `since=${encodeURIComponent(given.since)}&until=${encodeURIComponent(given.until)}`;
  for (const { address, kind, marks, keys } of given.charts) {
    const [chart, told, axis] = OVER[kind];
    await page.goto(`${given.base}${address}?${window}`);
    while (!(await appears(page, chart))) await page.reload(); // a busy server may have refused
    for (const key of keys) await page.waitForSelector(key);
    await settled(page);
    let text = "";
    while (!marks.every((mark) => text.includes(mark))) {
      const box = await page.locator(chart).first().boundingBox(); // none while a chart is made again
      if (box) await page.mouse.move(box.x + axis + (box.width - axis) / 2, box.y + box.height / 2);
      await page.waitForTimeout(200);
      text = await page.evaluate((told) => [...document.querySelectorAll(told)].find((one) => !one.hidden)?.textContent ?? "", told);
    }
    await page.screenshot({ path: `${given.pictures}/marks${address.replaceAll("/", "-")}${kind}.png` });
    tell({ told: text, keys: await page.locator(keys.join(", ")).allInnerTexts(), partial: await page.locator(".partial").allInnerTexts() });
  }
}
