import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";

import { register, registering } from "../api/session";
import { useAddress } from "../parts/search";
import "./signin.css";

/** Makes an account for who was invited, or for anybody where the server allows it. */
export function Register() {
  const { t } = useLingui();
  const [search] = useAddress();
  const navigate = useNavigate();
  const who = useQuery(registering).data;
  const [wrong, setWrong] = useState("");
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    const text = (name: string) => String(given.get(name));
    try {
      await register(text("email"), text("password"), text("invitation"));
      await navigate({ to: "/sign-in", search: {} });
    } catch (error) {
      setWrong(error instanceof Error ? error.message : String(error));
    }
  };
  return (
    <main className="sign-in">
      <form className="card" onSubmit={(event) => void submit(event)}>
        <h1>
          <Trans>Make an account</Trans>
        </h1>
        <label htmlFor="invitation">{who === "anybody" ? t`Invitation, if you have one` : t`Invitation`}</label>
        <input id="invitation" name="invitation" defaultValue={search.invitation} autoComplete="off" required={who === "invited"} />
        <label htmlFor="email">{t`Email`}</label>
        <input id="email" name="email" type="email" autoComplete="username" required />
        <label htmlFor="password">{t`Password, 12 characters or more`}</label>
        <input id="password" name="password" type="password" autoComplete="new-password" minLength={12} required />
        <p className="bad" role="alert">
          {wrong}
        </p>
        <button type="submit" className="primary">
          <Trans>Make the account</Trans>
        </button>
      </form>
    </main>
  );
}
