/** What a person without a login, one of each role, and one who comes back when the access token has expired, gets to see. */
import { settled } from "./page.mjs";

export default async function ({ given, open, tell }) {
  for (const person of [{}, ...given.people]) {
    const { page } = await open(person);
    const order = [];
    page.on("request", (request) => request.url().endsWith("/api/v1/streams") && order.push("streams asked"));
    page.on("response", (answer) => answer.url().endsWith("/auth/me") && order.push("me answered"));
    await page.goto(`${given.base}/start`);
    await settled(page);
    const atOnce = order[0] === "streams asked" && order.includes("me answered");
    const start = await page.locator("button[type=submit]:has-text('Start')").count();
    const signIn = await page.locator("#password").count();
    await page.goto(`${given.base}/users`);
    await settled(page);
    const buttons = await page.locator(".screen > header button").allInnerTexts();
    const register = await page.locator(".sign-in a").allInnerTexts();
    tell({ atOnce, email: person.email ?? "", start, signIn, buttons, register, next: new URL(page.url()).searchParams.get("next") });
  }
  const { page } = await open(given.returning);
  await page.context().clearCookies({ name: /^scope_access/ });
  await page.goto(`${given.base}/users`);
  await settled(page);
  tell(new URL(page.url()).pathname);
}
