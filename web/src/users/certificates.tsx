import { Trans, useLingui } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";

import { api, data } from "../api/client";
import { cell, moment } from "../parts/format";
import { Failed, Shown } from "../parts/states";
import { Table } from "../parts/table";

const SHOWN = 50;

/** The certificates of machines and persons, which an admin revokes. */
export function Certificates() {
  const { t } = useLingui();
  const queries = useQueryClient();
  const found = useQuery({ queryKey: ["certificates"], queryFn: async ({ signal }) => (await data(api.GET("/api/v1/certificates", { signal }))).certificates });
  const revoke = useMutation({
    mutationFn: (name: string) => data(api.POST("/api/v1/certificates/{name}/revoke", { params: { path: { name } } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["certificates"] }),
  });
  return (
    <section className="card scroll">
      <h2>
        <Trans>Certificates</Trans>
      </h2>
      {revoke.error && <Failed error={revoke.error} />}
      <Shown of={found} height={160}>
        {(all) => (
            <Table
              rows={all}
              first={SHOWN}
              keyOf={(one) => one.serial}
              fields={[
                { name: t`Of`, show: (one) => one.kind },
                { name: t`Name`, className: "break", show: (one) => cell(one.hostname ?? one.name) },
                { name: t`Role`, show: (one) => one.role ?? "–" },
                { name: t`Serial number`, className: "mono break", show: (one) => one.serial },
                { name: t`Issued`, show: (one) => moment(one.issued) },
                { name: t`Until`, show: (one) => (one.revoked ? <span className="bad">{t`revoked ${moment(one.revoked)}`}</span> : moment(one.expires)) },
                {
                  show: (one) =>
                    !one.revoked && (
                      <button type="button" className="danger" aria-label={t`Revoke ${one.serial}`} disabled={revoke.isPending} onClick={() => revoke.mutate(one.serial)}>
                        <Trans>Revoke</Trans>
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
