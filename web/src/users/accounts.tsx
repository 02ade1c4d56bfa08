import { Trans, useLingui } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import type { FormEvent } from "react";

import { api, data } from "../api/client";
import type { Role } from "../api/session";
import { Command } from "../parts/command";
import { moment } from "../parts/format";
import { Failed, Shown } from "../parts/states";
import { Table } from "../parts/table";

const ROLES: Role[] = ["viewer", "operator", "admin"];

/** Who may log in, and do what. */
export function Accounts() {
  const { t } = useLingui();
  const queries = useQueryClient();
  const found = useQuery({ queryKey: ["users"], queryFn: async ({ signal }) => (await data(api.GET("/api/v1/users", { signal }))).users });
  const invite = useMutation({ mutationFn: (body: { email: string; role: Role }) => data(api.POST("/api/v1/invitations", { body })) });
  const change = useMutation({
    mutationFn: ({ email, ...body }: { email: string; role?: Role; disabled?: boolean }) => data(api.POST("/api/v1/users/{email}", { params: { path: { email } }, body })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["users"] }),
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    invite.mutate({ email: String(given.get("email")), role: String(given.get("role")) as Role });
  };
  return (
    <section className="card scroll">
      <h2>
        <Trans>Accounts</Trans>
      </h2>
      <form className="row" onSubmit={submit}>
        <input name="email" type="email" aria-label={t`Email`} placeholder={t`Email`} required />
        <select name="role" aria-label={t`Role`}>
          {ROLES.map((role) => (
            <option key={role}>{role}</option>
          ))}
        </select>
        <button type="submit" disabled={invite.isPending}>
          <Trans>Invite</Trans>
        </button>
      </form>
      {invite.data && (
        <>
          <p>
            <Trans>Send this link, which is shown only now and is valid for 7 days:</Trans>
          </p>
          <Command text={`${location.origin}/register?invitation=${encodeURIComponent(invite.data.invitation)}`} />
        </>
      )}
      {invite.error && <Failed error={invite.error} />}
      {change.error && <Failed error={change.error} />}
      <Shown of={found}>
        {(users) => (
          <Table
            rows={users}
            keyOf={(user) => user.id}
            fields={[
              { name: t`Email`, show: (user) => user.email },
              {
                name: t`Role`,
                show: (user) => (
                  <select aria-label={t`Role of ${user.email}`} value={user.role} onChange={(event) => change.mutate({ email: user.email, role: event.target.value as Role })}>
                    {ROLES.map((role) => (
                      <option key={role}>{role}</option>
                    ))}
                  </select>
                ),
              },
              { name: t`Seen`, show: (user) => user.seen ? moment(user.seen) : "–" },
              {
                show: (user) => (
                  <button type="button" className={user.disabled ? "" : "danger"} onClick={() => change.mutate({ email: user.email, disabled: !user.disabled })}>
                    {user.disabled ? t`Enable` : t`Disable`}
                  </button>
                ),
              },
            ]}
          />
        )}
      </Shown>
    </section>
  );
}
