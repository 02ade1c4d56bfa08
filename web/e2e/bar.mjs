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
  const cleared = { left: address(), told: await page.locator(".applied").count() };

  await page.route(/aggregates.*by=name/, async (route) => {
    const answer = await (await route.fetch()).json(); // its group stands for 40
    const of = (number) => ({ ...answer.groups[0], key: { name: `call ${number}` } });
    const top = Number(new URL(route.request().url()).searchParams.get("top"));
    await route.fulfill({ json: { ...answer, groups: Array.from({ length: Math.min(top, 40) }, (_, number) => of(number)) } });
  });
  await page.goto(`${given.base}/explore/${given.stream}?since=${given.since}&until=${given.until}&view=groups&by=name`);
  await page.getByRole("button", { name: "More groups are hidden" }).click();
  await page.waitForFunction(() => document.querySelectorAll("table.groups tbody tr").length > 21);
  const groups = await page.locator("table.groups tbody tr").count();
  tell({ groups, screens, asked: Object.fromEntries(asked), ...cleared, wrong });
}
