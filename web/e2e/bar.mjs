/** Types a filter, brushes a part of a chart, and goes to every screen: what is kept there, and what it is applied to. */
import { settled } from "./page.mjs";

const KEPT = ["since", "until", "where", "brushed"];

export default async function ({ given, open, tell }) {
  const { page, wrong } = await open();
  const asked = new Map(); // by stream: the filters and windows of questions
  page.on("request", (request) => {
    const { pathname, searchParams } = new URL(request.url());
    const stream = /^\/api\/v1\/aggregates\/(\w+)$/.exec(pathname)?.[1];
    if (stream) asked.set(stream, [...(asked.get(stream) ?? []), `${searchParams.get("where")} ${searchParams.get("since")}`]);
  });
  const address = () => {
    const search = new URL(page.url()).searchParams;
    return Object.fromEntries(KEPT.map((name) => [name, search.get(name)]));
  };
  const look = async () => {
    await settled(page);
    return { at: new URL(page.url()).pathname, ...address(), filter: await page.inputValue(".bar .filter input"), told: await page.innerText(".applied") };
  };

  await page.goto(`${given.base}/explore/${given.stream}?since=${given.since}&until=${given.until}`);
  await settled(page);
  await page.locator(".bar .filter input").pressSequentially(given.begun);
  await page.click(`.bar .filter li:has(code:text-is("${given.value}"))`); // a value that the rows have
  await page.keyboard.press("Enter");
  await page.waitForURL(/where=/);
  await page.waitForSelector(".heatmap canvas");
  await page.focus(".heatmap");
  for (const key of ["ArrowLeft", "Shift+Control+ArrowLeft", "Enter"]) await page.keyboard.press(key);
  await page.waitForURL(/brushed=/);
  const screens = [await look()];
  for (const link of await page.locator("nav a:not(.brand)").all()) {
    await link.click();
    await page.waitForFunction((href) => location.pathname === new URL(href, location.href).pathname, await link.getAttribute("href"));
    screens.push(await look());
  }
  await page.click(".applied button");
  await page.waitForURL((url) => !url.searchParams.has("brushed"));
  await page.click(".bar .filter button");
  await page.waitForURL((url) => !url.searchParams.has("where"));
  tell({ screens, asked: Object.fromEntries(asked), left: address(), told: await page.locator(".applied").count(), wrong });
}
