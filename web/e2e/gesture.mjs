/** With the keyboard alone: starts a task on a process, brushes its slowest calls, and reads what differs in them. */
import { settled } from "./page.mjs";

export default async function ({ given, open, tell }) {
  const { page, wrong } = await open();
  const press = async (key, times = 1) => {
    for (let time = 0; time < times; time += 1) await page.keyboard.press(key);
  };
  const picture = (name) => page.screenshot({ path: `${given.pictures}/${name}.png`, fullPage: true });

  await page.goto(`${given.base}/start?probe=syscalls`);
  await settled(page);
  await page.fill("#process", String(given.pid));
  await page.focus(`.picker button:has-text("${given.pid}")`);
  await press("Enter");
  await page.waitForSelector(".choices input:checked");
  const command = await page.innerText(".command code");
  await page.focus("button[type=submit]");
  await press("Enter");
  await page.waitForURL(/\/tasks\/[0-9a-f-]{36}/);
  const task = page.url().split("/").pop().split("?")[0];

  const rowsOfTask = async () => (await page.request.get(`${given.base}/api/v1/events/syscall?task=${task}&limit=500`)).json();
  while ((await rowsOfTask()).events.length < 500) await page.waitForTimeout(500);
  await page.goto(`${given.base}/explore/syscall?since=5m&task=${task}`);
  await page.waitForSelector(".rows-row");
  await page.waitForSelector(".heatmap");
  await settled(page);
  const rows = await page.locator(".rows-row").count();
  await page.focus(".heatmap");
  await press("ArrowRight");
  await press("Shift+ArrowLeft", 30);
  await press("Shift+ArrowDown", given.down);
  await press("Enter");
  await page.waitForSelector(".difference");
  await settled(page);
  await picture("gesture-compare");
  const differs = await page.locator(".difference").allInnerTexts();

  await page.focus(".rows");
  await press("Enter");
  await page.waitForSelector(".details");
  await picture("gesture-row");
  const row = await page.innerText(".details");
  await page.click(".details a:has-text('Trace around it')");
  await page.waitForURL(/\/traces/);
  await settled(page);
  const chosen = await page.locator(".trace-streams input:checked").count();

  await press("Control+k");
  await page.waitForSelector(".goto input");
  await page.keyboard.type("sched_sum");
  await press("Enter");
  await page.waitForURL(/\/explore\/sched_summary/);
  tell({ command, task, rows, differs, row, chosen, wrong });
}
