/**
 * With the keyboard alone: starts a task on a process, brushes its slowest calls, reads what differs in them and where
 * its threads were, opens a row, and hands the trace around it to Perfetto. A stand-in answers at Perfetto's address.
 */
import { writeFileSync } from "node:fs";

import { frames } from "./flames.mjs";
import { keyboard } from "./keyboard.mjs";
import { faults, picture, settled } from "./page.mjs";

const PERFETTO = "https://ui.perfetto.dev";
const STAND_IN = `<!doctype html><script>
  addEventListener("message", ({ data, source, origin }) => {
    if (data === "PING") source.postMessage("PONG", origin);
    else window.got = data.perfetto;
  });
</script>`;

export default async function ({ given, open, tell }) {
  const { page, wrong } = await open();
  const sent = [];
  page.context().on("request", (request) => request.url().startsWith(PERFETTO) && request.method() !== "GET" && sent.push(request.url()));
  await page.context().route(`${PERFETTO}/**`, (route) => route.fulfill({ contentType: "text/html", body: STAND_IN }));
  await page.goto(`${given.base}/start?probe=syscalls`);
  await settled(page);
  const { press, tabTo, type } = keyboard(page);

  await tabTo("#process");
  await type(String(given.pid));
  await page.waitForSelector(`.picker button:has-text("${given.pid}")`);
  await tabTo(".picker button", String(given.pid));
  await press("Enter");
  await page.waitForSelector(".choices input:checked");
  const command = await page.innerText(".command code");
  await tabTo("button[type=submit]");
  await press("Enter");
  await page.waitForURL(/\/tasks\/[0-9a-f-]{36}/);
  const task = page.url().split("/").pop().split("?")[0];
  const rowsOfTask = async () => (await page.request.get(`${given.base}/api/v1/events/syscall?task=${task}&limit=500`)).json();
  while ((await rowsOfTask()).events.length < 500) await page.waitForTimeout(500);

  const recorded = "a[href^='/explore/syscall?'], a[href='/explore/syscall']";
  await page.waitForSelector(recorded);
  await tabTo(recorded);
  await press("Enter");
  await page.waitForURL(/\/explore\/syscall(\?|$)/);
  await page.waitForSelector(".bar .filter input");
  await settled(page);
  await tabTo(".bar .filter input");
  await type(`pid = ${given.pid}`);
  await press("Enter");
  await page.waitForURL(/where=/);
  await page.waitForSelector(".rows-row");
  await page.waitForSelector(".heatmap");
  await settled(page);
  await tabTo(".heatmap");
  await press("ArrowRight");
  await press("Control+Shift+ArrowLeft", 30); // over all of the time
  await press("Shift+ArrowDown", given.down);
  await press("Enter");
  await page.waitForSelector(".difference");
  await page.waitForSelector(".brushed .flames-scroll");
  await settled(page);
  const differs = await page.evaluate(() => [...document.querySelectorAll(".difference")].map((one) => one.innerText));
  await tabTo(".flames-scroll");
  const graph = await frames(page, 2);
  await picture(page, `${given.pictures}/gesture-compare.jpg`);

  await tabTo(".rows");
  await press("Enter");
  await page.waitForSelector(".details");
  await picture(page, `${given.pictures}/gesture-row.jpg`);
  const grave = await faults(page);
  const row = await page.innerText(".details");
  const [, , time] = new URL(page.url()).searchParams.get("row").split("~");
  await tabTo(".details a", "Trace around it");
  await press("Enter");
  await page.waitForURL(/\/traces/);
  await settled(page);
  await tabTo("button.primary", "Open in Perfetto");
  const opening = page.waitForEvent("popup");
  await press("Enter");
  const tab = await opening;
  await tab.waitForFunction(() => window.got);
  const { title, bytes } = await tab.evaluate(async () => {
    const read = new FileReader();
    const done = new Promise((resolve) => (read.onload = resolve));
    read.readAsDataURL(new Blob([window.got.buffer]));
    await done;
    return { title: window.got.title, bytes: read.result.split(",")[1] };
  });
  writeFileSync(given.trace, Buffer.from(bytes, "base64"));
  await tab.close();
  await page.waitForSelector("text=Handed over.");

  await press("Control+k");
  await page.waitForSelector(".goto input");
  await type("sched_sum");
  await press("Enter");
  await page.waitForURL(/\/explore\/sched_summary/);
  tell({ command, task, differs, graph, row, time, title, sent, faults: grave, wrong });
}
