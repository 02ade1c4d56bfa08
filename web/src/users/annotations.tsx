import { Trans, useLingui } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";

import { api, data } from "../api/client";
import { moment, visible } from "../parts/format";
import { useAddress } from "../parts/search";
import { Failed, Shown } from "../parts/states";
import { Table } from "../parts/table";
import { asked } from "../parts/times";

const SHOWN = 50;

/** What was said about times in the window; an admin deletes what is wrong. */
export function Annotations() {
  const { t } = useLingui();
  const [search] = useAddress();
  const queries = useQueryClient();
  const found = useQuery({
    queryKey: ["annotations", search.machine, search.since, search.until],
    queryFn: async ({ signal }) => (await data(api.GET("/api/v1/annotations", { params: { query: { ...asked(search), machine: search.machine } }, signal }))).annotations,
  });
  const drop = useMutation({
    mutationFn: (id: string) => data(api.POST("/api/v1/annotations/{id}/delete", { params: { path: { id } } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["annotations"] }),
  });
  return (
    <section className="card scroll">
      <h2>
        <Trans>Annotations in this window</Trans>
      </h2>
      {drop.error && <Failed error={drop.error} />}
      <Shown of={found} height={160}>
        {(all) =>
          all.length === 0 ? (
            <p className="soft">
              <Trans>None in this window</Trans>
            </p>
          ) : (
              <Table
                rows={all}
                first={SHOWN}
                keyOf={(one) => one.id}
                fields={[
                  { name: t`When`, show: (one) => moment(one.time) },
                  { name: t`Text`, className: "break", show: (one) => visible(one.text) },
                  { name: t`Made by`, className: "break", show: (one) => visible(one.made_by ?? one.comm ?? "–") },
                  { name: t`Machine`, show: (one) => visible(one.hostname ?? "–") },
                  {
                    show: (one) => (
                      <button type="button" className="danger" aria-label={t`Delete ${visible(one.text)}`} disabled={drop.isPending} onClick={() => drop.mutate(one.id)}>
                        <Trans>Delete</Trans>
                      </button>
                    ),
                  },
                ]}
              />
          )
        }
      </Shown>
    </section>
  );
}
