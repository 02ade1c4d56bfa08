/** What a person without a login, and one of each role, gets to see. */
import { given, opened, settled, told } from "./browser.mjs";

for (const person of [{}, ...given.people]) {
  const { browser, page } = await opened({ base: given.base, ...person });
  await page.goto(`${given.base}/start`);
  await settled(page);
  const start = await page.locator("button[type=submit]:has-text('Start')").count();
  const signIn = await page.locator("#password").count();
  await page.goto(`${given.base}/users`);
  await settled(page);
  const buttons = await page.locator(".screen > header button").allInnerTexts();
  told({ email: person.email ?? "", start, signIn, buttons, next: new URL(page.url()).searchParams.get("next") });
  await browser.close();
}
