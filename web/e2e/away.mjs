/** An open page while the server is away, slow, too slow, upgraded and restarted, and what it says and keeps. */
import { settled } from "./page.mjs";

const API = "**/api/v1/**";

/** An answer about machines as it is while their agents are away. */
async function disconnected(route) {
  const answer = await route.fetch();
  const { nodes, ...rest } = await answer.json();
  await route.fulfill({ json: { ...rest, nodes: nodes.map((node) => ({ ...node, connected: false })) } });
}

export default async function ({ given, open, tell }) {
  const { page, wrong } = await open();
  const typed = () => page.inputValue("#duration");
  await page.goto(`${given.base}/start?probe=syscalls`);
  await settled(page);
  await page.fill("#duration", "77");

  await page.route(API, (route) => route.abort());
  await page.waitForSelector(".away >> text=The server is away");
  const away = [true, await typed()];
  await page.screenshot({ path: `${given.pictures}/away.png` });
  await page.unroute(API);
  await page.waitForSelector(".away", { state: "detached" });
  const back = [false, await typed()];

  await page.route("**/index.html", (route) => route.fulfill({ contentType: "text/html", body: "<script type=module src=/assets/new.js></script>" }));
  await page.waitForSelector(".away >> text=The console was upgraded");
  const upgraded = [true, await typed()];
  await page.unroute("**/index.html");
  await page.click("text=Load the new one");
  await page.waitForSelector(".away", { state: "detached" });
  await settled(page);
  upgraded.push(await typed());

  const held = [];
  let isSlow = true;
  await page.route("**/api/v1/heatmap/*", (route) => (isSlow ? void held.push(route) : route.continue()));
  await page.goto(`${given.base}/explore/syscall_summary?since=1m`);
  const long = page.locator(".loading-long").first();
  await long.waitFor({ state: "visible" });
  const slow = await long.innerText();
  const tooSlow = { status: 504, title: "The query takes too long", detail: "the query takes too long; narrow it" };
  for (const route of held) await route.fulfill({ status: 504, contentType: "application/problem+json", json: tooSlow });
  const failed = page.locator(".failed:has-text('narrow it')");
  await failed.waitFor();
  const late = { says: await failed.innerText(), asked: held.length, wrong: [...wrong] };
  isSlow = false;
  await failed.locator("button").click();
  await page.waitForSelector(".heatmap");

  await page.route("**/assets/gpu-*.js", (route) => route.fulfill({ status: 404 }));
  await page.click("nav a:has-text('GPU')");
  await page.waitForSelector("text=Load the new one");
  await page.unroute("**/assets/gpu-*.js");
  await page.click("text=Load the new one");
  await page.waitForSelector("h1:has-text('GPU')");
  const broken = await page.innerText("h1");

  const { page: beside } = await open(); // somebody types there when the server dies
  await beside.goto(`${given.base}/start?probe=syscalls`);
  await settled(beside);
  await beside.fill("#option-interval_ms", "500");
  await beside.fill("#duration", "77");
  await beside.locator("main .filter input").pressSequentially("name = 'getp");
  const form = async () => ({ values: await beside.locator("main input").evaluateAll((all) => all.map((one) => one.value)), focus: await beside.evaluate(() => document.activeElement.className) });
  const typing = [await form()];

  await page.goto(`${given.base}/explore/syscall_summary?view=live`);
  await page.waitForSelector("[data-live=open]");
  process.kill(given.server, "SIGKILL");
  await page.waitForSelector("[data-live=away]");
  typing.push(await form());
  await page.waitForSelector("[data-live=open]");
  await beside.waitForSelector(".away", { state: "detached" }); // if it asked meanwhile
  await beside.route("**/api/v1/nodes", disconnected); // the server is there, the agent not yet
  await beside.waitForSelector("option:has-text('(away)')", { state: "attached" });
  typing.push(await form());
  await beside.unroute("**/api/v1/nodes", disconnected);
  await beside.keyboard.type("id'");
  typing.push(await form());
  await beside.keyboard.press("Enter");
  await beside.waitForURL(/only=/);
  const command = await beside.innerText(".command code");
  await page.waitForSelector(".rows-row");
  const rows = await page.locator(".rows-row").count();
  tell({ away, back, slow, late, upgraded, broken, live: ["away", "open"], typing, command, rows });
}
