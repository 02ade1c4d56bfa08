/** What a heatmap and a chart show of an annotation and a loss in the middle of a window. */
import { settled } from "./page.mjs";

const appears = (page, chart) =>
  page.waitForSelector(chart, { timeout: 60_000 }).then(
    () => true,
    () => false,
  );

export default async function ({ given, open, tell }) {
  const { page } = await open();
  const window = `since=${encodeURIComponent(given.since)}&until=${encodeURIComponent(given.until)}`;
  for (const [address, chart, told] of [
    [`/explore/syscall?${window}`, ".heatmap", ".heat-told"],
    [`/?${window}`, ".chart .u-over", ".tooltip"],
  ]) {
    await page.goto(given.base + address);
    while (!(await appears(page, chart))) await page.reload(); // a busy server may have refused
    await page.waitForSelector(".loss-key");
    await page.waitForSelector(".note-key");
    await settled(page);
    const axis = chart === ".heatmap" ? 72 : 0;
    let text = "";
    while (!text.includes("●") || !text.includes("⚠")) {
      const box = await page.locator(chart).first().boundingBox(); // none while a chart is made again
      if (box) await page.mouse.move(box.x + axis + (box.width - axis) / 2, box.y + box.height / 2);
      await page.waitForTimeout(200);
      text = await page.evaluate((told) => [...document.querySelectorAll(told)].find((one) => !one.hidden)?.textContent ?? "", told);
    }
    await page.screenshot({ path: `${given.pictures}/marks${chart === ".heatmap" ? "-heatmap" : ""}.png` });
    tell({ told: text, keys: await page.locator(".loss-key, .note-key").allInnerTexts() });
  }
}
