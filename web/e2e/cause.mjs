/** With the mouse: brushes slow tokens on the heatmap of the screen LLM, and reads what slowed them. */
import { frames } from "./flames.mjs";
import { picture, settled } from "./page.mjs";

export default async function ({ given, open, tell }) {
  const { page, wrong } = await open();
  let heat;
  page.on("response", async (answer) => {
    if (answer.url().includes("/heatmap/llama_token") && answer.ok()) heat = await answer.json().catch(() => heat);
  });
  let clicks = 0;
  await page.goto(`${given.base}/?since=${given.since}&until=${given.until}`);
  await page.click("nav a:has-text('LLM')");
  clicks += 1;
  await page.waitForSelector(".heatmap canvas");
  await settled(page);

  // What a person sees: the columns of the act, from the row that only its tokens reach to the top.
  const box = await page.locator(".heatmap").boundingBox();
  const [left, below] = [72, 22]; // of the heatmap's axes
  const x = (at) => box.x + left + ((at - Date.parse(heat.since) / 1000) / heat.step_s / heat.counts.length) * (box.width - left);
  const rows = heat.edges.map((_, edge) => heat.counts.some((step) => step[edge] > 0));
  const first = Math.max(0, rows.indexOf(true) - 1);
  const last = Math.min(rows.length - 1, Math.max(rows.lastIndexOf(true) + 1, first + 4));
  const row = heat.edges.filter((edge) => edge <= given.least).length - 1 - first;
  const y = box.y + (box.height - below) * (1 - row / (last - first + 1));
  await page.mouse.move(x(given.begin), y - 2);
  await page.mouse.down();
  await page.mouse.move(x(given.end), box.y + 3, { steps: 4 });
  await page.mouse.up();
  clicks += 1;
  await page.waitForSelector(".longer");
  await settled(page);
  await picture(page, `${given.pictures}/cause-${given.name}.jpg`);
  if (given.stacks) await page.focus(".brushed .flames-scroll");
  tell({
    frames: given.stacks ? await frames(page, 2) : [],
    clicks,
    wrong,
    took: await page.innerText(".longer > p:first-child"),
    causes: await page.locator(".longer-cause").allInnerTexts(),
    parts: await page.locator(".longer .bar-name").allInnerTexts(),
    meanwhile: await page.locator("section[aria-label='On the CPUs meanwhile'] tbody tr").allInnerTexts(),
  });
}
