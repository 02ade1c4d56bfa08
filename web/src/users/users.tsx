import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";

import { includes, me } from "../api/session";
import { useAddress } from "../parts/search";
import { Accounts } from "./accounts";
import { Audit } from "./audit";
import { Password } from "./password";
import { Settings } from "./settings";
import { Storage } from "./storage";
import { ApiTokens } from "./tokens";
import "./users.css";

/** One's own password and tokens; for admins, accounts, audit log, storage and what else they look after. */
export function Users() {
  const { t } = useLingui();
  const [search, change] = useAddress();
  const { data: who } = useQuery(me);
  const isAdmin = includes(who?.role, "admin");
  const names: Record<string, string> = { mine: t`My account`, storage: t`Storage`, ...(isAdmin && { accounts: t`Accounts`, audit: t`Audit log`, settings: t`Settings` }) };
  const view = search.view && search.view in names ? search.view : "mine";
  return (
    <div className="screen">
      <header>
        <h1>
          <Trans>Users</Trans>
        </h1>
        {Object.entries(names).map(([key, name]) => (
          <button key={key} type="button" aria-pressed={key === view} onClick={() => change({ view: key })}>
            {name}
          </button>
        ))}
      </header>
      {view === "mine" && (
        <div className="cards">
          <section className="card">
            <h2>{who?.name}</h2>
            <p>
              <Trans>
                Your role is <b>{who?.role}</b>.
              </Trans>
            </p>
            <Password />
          </section>
          <ApiTokens />
        </div>
      )}
      {view === "storage" && <Storage />}
      {view === "accounts" && <Accounts />}
      {view === "audit" && <Audit />}
      {view === "settings" && <Settings />}
    </div>
  );
}
