/** With the keyboard alone: starts a task on a process, brushes its slowest calls, and reads what differs in them. */
import { given, opened, settled, told } from "./browser.mjs";

const { browser, page, wrong } = await opened(given);
const press = async (key, times = 1) => {
  for (let time = 0; time < times; time += 1) await page.keyboard.press(key);
};
const picture = (name) => page.screenshot({ path: `${given.pictures}/${name}.png`, fullPage: true });

await page.goto(`${given.base}/start?probe=syscalls`);
await settled(page);
await page.fill("#process", String(given.pid));
await page.focus(`.picker button:has-text("${given.pid}")`);
await press("Enter");
await page.waitForSelector(".choices input:checked", { timeout: 120_000 });
const command = await page.innerText(".command code");
await page.focus("button[type=submit]");
await press("Enter");
await page.waitForURL(/\/tasks\/[0-9a-f-]{36}/, { timeout: 60_000 });
const task = page.url().split("/").pop().split("?")[0];

await page.waitForTimeout(6000); // rows of several steps of the heatmap
await page.goto(`${given.base}/explore/syscall?since=5m&task=${task}`);
await page.waitForSelector(".rows-row", { timeout: 60_000 });
await page.waitForSelector(".heatmap");
await settled(page);
const rows = await page.locator(".rows-row").count();
await page.focus(".heatmap");
await press("ArrowRight");
await press("Shift+ArrowLeft", 30);
await press("Shift+ArrowDown", given.down);
await press("Enter");
await page.waitForSelector(".difference", { timeout: 60_000 });
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
told({ command, task, rows, differs, row, chosen, wrong });
await browser.close();
