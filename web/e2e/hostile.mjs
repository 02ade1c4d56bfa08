/** Looks at pages of a program with hostile texts; then at others, with such texts in place of those of watched programs. */
import { settled, wide } from "./page.mjs";

const OF_PROGRAMS = new Set(["comm", "name", "path", "thread_comm", "exe", "hostname", "kernel", "function", "stack", "filename", "reason", "sentence", "cgroup", "container"]);
const ADDRESSES = ["/", "/nodes", "/why", "/llm", "/explore/syscall_summary?since=15m", "/explore/syscall_summary?since=15m&view=groups", "/users?view=audit"];
const MARKUP = ["<img src=x", "</script>"]; // the beginning of a long path may be left out

export default async function ({ given, open, tell }) {
  const { page, wrong } = await open();
  const look = async (address, button) => {
    wrong.length = 0;
    await page.goto(given.base + address);
    await settled(page);
    if (button) await page.locator(button).first().click();
    await settled(page);
    const text = await page.innerText("body");
    found.push({
      address,
      wrong: [...wrong],
      wide: await wide(page),
      ran: await page.evaluate(() => window.ran ?? null),
      elements: await page.locator("img[src=x]").count(),
      controls: [...text].filter((one) => /[\u202a-\u202e\u2066-\u2069\u001b]/.test(one)).length,
      markup: MARKUP.some((one) => text.includes(one)), // as text
    });
    await page.screenshot({ path: `${given.pictures}/hostile${found.length}.png` });
  };
  const found = [];
  for (const [address, button] of given.recorded) await look(address, button);

  let count = 0;
  const hostile = () => given.texts[(count += 1) % given.texts.length];
  const changed = (value, name) => {
    if (Array.isArray(value)) return value.map((one) => changed(one, name));
    if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, changed(one, key)]));
    return typeof value === "string" && OF_PROGRAMS.has(name) ? hostile() : value;
  };
  const replaced = async (route) => {
    const answer = await route.fetch();
    const kind = answer.headers()["content-type"] ?? "";
    await (kind.includes("json") ? route.fulfill({ response: answer, json: changed(await answer.json(), "") }) : route.fulfill({ response: answer }));
  };
  // A page that is left takes its requests with it.
  await page.route(/\/api\/v1\/(?!auth|streams|probes)/, (route) => replaced(route).catch(() => undefined));
  for (const address of ADDRESSES) await look(address);
  tell(found);
}
