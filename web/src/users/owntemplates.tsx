import { Trans, useLingui } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { api, data } from "../api/client";
import { moment, visible } from "../parts/format";
import { Failed, Shown } from "../parts/states";
import { Table } from "../parts/table";
import { templates } from "../tasks/tasks.api";

/** The templates that people made; those that come with SCOPE stay. */
export function OwnTemplates() {
  const { t } = useLingui();
  const queries = useQueryClient();
  const found = useQuery(templates);
  const drop = useMutation({
    mutationFn: (name: string) => data(api.POST("/api/v1/templates/{name}/delete", { params: { path: { name } } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: templates.queryKey }),
  });
  return (
    <section className="card scroll">
      <h2>
        <Trans>Templates</Trans>
      </h2>
      {drop.error && <Failed error={drop.error} />}
      <Shown of={found} height={160}>
        {(all) => (
          <Table
            rows={all}
            keyOf={(one) => one.name}
            fields={[
              {
                name: t`Name`,
                show: (one) => (
                  <Link to="/start" search={{ template: one.name }}>
                    {visible(one.name)}
                  </Link>
                ),
              },
              { name: t`Probes`, className: "break soft", show: (one) => one.parts.map((part) => part.probe).join(", ") },
              { name: t`Made by`, className: "break", show: (one) => (one.made_by ? <>{visible(one.made_by)} <span className="soft">{one.made && moment(one.made)}</span></> : "SCOPE") },
              {
                show: (one) =>
                  one.made_by && (
                    <button type="button" className="danger" aria-label={t`Delete ${one.name}`} disabled={drop.isPending} onClick={() => drop.mutate(one.name)}>
                      <Trans>Delete</Trans>
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
