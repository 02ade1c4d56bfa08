import { Trans, useLingui } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";

import { api, data } from "../api/client";
import { bytes, count, moment, visible } from "../parts/format";
import { Failed, Shown } from "../parts/states";
import { Table } from "../parts/table";

/** Batches that could not be stored: their events count as lost until one is retried and stored. */
export function Quarantine() {
  const { t } = useLingui();
  const queries = useQueryClient();
  const again = () => queries.invalidateQueries({ queryKey: ["quarantine"] });
  const found = useQuery({ queryKey: ["quarantine"], queryFn: async ({ signal }) => (await data(api.GET("/api/v1/quarantine", { signal }))).quarantine });
  const retry = useMutation({ mutationFn: (id: number) => data(api.POST("/api/v1/quarantine/{id}/retry", { params: { path: { id } } })), onSuccess: again });
  const drop = useMutation({ mutationFn: (id: number) => data(api.POST("/api/v1/quarantine/{id}/drop", { params: { path: { id } } })), onSuccess: again });
  const error = retry.error ?? drop.error;
  return (
    <section className="card scroll">
      <h2>
        <Trans>Quarantine</Trans>
      </h2>
      {error && <Failed error={error} />}
      <Shown of={found} height={100}>
        {(all) =>
          all.length === 0 ? (
            <p className="soft">
              <Trans>Every batch could be stored.</Trans>
            </p>
          ) : (
            <Table
              rows={all}
              keyOf={(one) => one.id}
              fields={[
                { name: t`Received`, show: (one) => moment(one.received) },
                { name: t`Machine`, show: (one) => visible(one.hostname) },
                { name: t`Stream`, show: (one) => one.stream ?? "–" },
                { name: t`Events`, number: true, show: (one) => count(one.events) },
                { name: t`size`, number: true, show: (one) => bytes(one.bytes) },
                { name: t`Reason`, className: "break", show: (one) => <>{one.code} <span className="soft">{visible(one.reason)}</span></> },
                {
                  show: (one) => (
                    <span className="row">
                      {one.kept && (
                        <button type="button" disabled={retry.isPending} onClick={() => retry.mutate(one.id)}>
                          <Trans>Retry</Trans>
                        </button>
                      )}
                      <button type="button" className="danger" disabled={drop.isPending} onClick={() => drop.mutate(one.id)}>
                        <Trans>Delete</Trans>
                      </button>
                    </span>
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
