/** What a person without a login, and one of each role, gets to see. */
import { settled } from "./page.mjs";

export default async function ({ given, open, tell }) {
  for (const person of [{}, ...given.people]) {
    const { page } = await open(person);
    await page.goto(`${given.base}/start`);
    await settled(page);
    const start = await page.locator("button[type=submit]:has-text('Start')").count();
    const signIn = await page.locator("#password").count();
    await page.goto(`${given.base}/users`);
    await settled(page);
    const buttons = await page.locator(".screen > header button").allInnerTexts();
    const register = await page.locator(".sign-in a").allInnerTexts();
    tell({ email: person.email ?? "", start, signIn, buttons, register, next: new URL(page.url()).searchParams.get("next") });
  }
}
