import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useRouter } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";

import { me, registering, signIn } from "../api/session";
import { useAddress } from "../parts/search";
import { within } from "./next";
import "./signin.css";

export function SignIn() {
  const { t } = useLingui();
  const [search] = useAddress();
  const [wrong, setWrong] = useState("");
  const [busy, setBusy] = useState(false);
  const who = useQuery(registering).data;
  const queries = useQueryClient();
  const router = useRouter();
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    setBusy(true);
    try {
      await signIn(String(given.get("email")), String(given.get("password")));
      await queries.resetQueries({ queryKey: me.queryKey });
      router.history.push(within(search.next));
    } catch (error) {
      setWrong(error instanceof Error ? error.message : String(error));
      setBusy(false);
    }
  };
  return (
    <main className="sign-in">
      <form className="card" onSubmit={(event) => void submit(event)}>
        <img src="/icon.svg" alt="" width={40} height={40} />
        <h1>SCOPE</h1>
        <p className="soft">
          <Trans>
            <code>scope up</code> shows the first login when it starts.
          </Trans>
        </p>
        <label htmlFor="email">{t`Email`}</label>
        <input id="email" name="email" type="email" autoComplete="username" required autoFocus />
        <label htmlFor="password">{t`Password`}</label>
        <input id="password" name="password" type="password" autoComplete="current-password" required />
        <p className="bad" role="alert">
          {wrong}
        </p>
        <button type="submit" className="primary" disabled={busy}>
          <Trans>Sign in</Trans>
        </button>
        <Link to="/register" className="soft">
          {who === "anybody" ? <Trans>Make an account</Trans> : <Trans>I was invited</Trans>}
        </Link>
      </form>
    </main>
  );
}
