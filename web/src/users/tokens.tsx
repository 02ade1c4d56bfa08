import { Trans, useLingui } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import type { FormEvent } from "react";

import { api, data } from "../api/client";
import type { Role } from "../api/session";
import { Command } from "../parts/command";
import { moment } from "../parts/format";
import { Failed, Shown } from "../parts/states";
import { Table } from "../parts/table";

const DAY_S = 86_400;

/** Tokens for scripts: made, shown once, revoked. */
export function ApiTokens() {
  const { t } = useLingui();
  const queries = useQueryClient();
  const again = () => queries.invalidateQueries({ queryKey: ["tokens"] });
  const found = useQuery({ queryKey: ["tokens"], queryFn: async ({ signal }) => (await data(api.GET("/api/v1/tokens", { signal }))).tokens });
  const make = useMutation({
    mutationFn: (body: { name: string; role: Role; valid: number }) => data(api.POST("/api/v1/tokens", { body })),
    onSuccess: again,
  });
  const revoke = useMutation({
    mutationFn: (id: string) => data(api.POST("/api/v1/tokens/{id}/revoke", { params: { path: { id } } })),
    onSuccess: again,
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    make.mutate({ name: String(given.get("name")), role: String(given.get("role")) as Role, valid: Number(given.get("days")) * DAY_S });
  };
  return (
    <section className="card scroll">
      <h2>
        <Trans>Tokens for scripts</Trans>
      </h2>
      <form className="row" onSubmit={submit}>
        <input name="name" aria-label={t`What for`} placeholder={t`What for`} required maxLength={100} />
        <select name="role" aria-label={t`Role`}>
          <option>viewer</option>
          <option>operator</option>
          <option>admin</option>
        </select>
        <label>
          {t`days`} <input name="days" type="number" min="1" max="366" defaultValue="90" />
        </label>
        <button type="submit" disabled={make.isPending}>
          <Trans>Make a token</Trans>
        </button>
      </form>
      {make.error && <Failed error={make.error} />}
      {make.data && (
        <>
          <p>
            <Trans>It is shown only now:</Trans>
          </p>
          <Command text={make.data.token} />
        </>
      )}
      <Shown of={found}>
        {(tokens) => (
          <Table
            rows={tokens}
            keyOf={(token) => token.id}
            fields={[
              { name: t`What for`, className: "break", show: (token) => token.name },
              { name: t`Owner`, show: (token) => token.owner },
              { name: t`Role`, show: (token) => token.role },
              { name: t`Until`, show: (token) => token.revoked ? t`revoked` : moment(token.expires) },
              {
                show: (token) => (
                  !token.revoked && (
                    <button type="button" className="danger" onClick={() => revoke.mutate(token.id)}>
                      <Trans>Revoke</Trans>
                    </button>
                  )
                ),
              },
            ]}
          />
        )}
      </Shown>
    </section>
  );
}
