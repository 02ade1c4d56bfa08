import { Trans, useLingui } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";

import { bytes, cell, count, duration } from "../parts/format";
import { useTotals } from "../parts/series";
import { Empty, Shown } from "../parts/states";
import { Table } from "../parts/table";

const [BYTES, TIME, USUAL, BEST] = ["sum(bytes)", "sum(duration_ns)", "p50(bandwidth)", "max(bandwidth)"];
const COPIES = "kind is not null and nested = 0";

/** Copies by direction, and how fast those were that the program waited for. */
export function Copies() {
  const { t } = useLingui();
  const title = t`Copies by direction`;
  const found = useTotals({ stream: "cuda_call", by: ["kind"], cells: [BYTES, "count", TIME, USUAL, BEST], where: COPIES, card: title });
  const rate = (value: unknown) => (value ? `${bytes(Number(value))}/s` : "–");
  return (
    <section className="card">
      <h2>{title}</h2>
      <Shown of={found} height={160}>
        {({ groups }) =>
          groups.length === 0 ? (
            <Empty title={<Trans>None in this window</Trans>} />
          ) : (
            <Table
              rows={groups}
              keyOf={({ key }) => String(key.kind)}
              fields={[
                {
                  name: t`direction`,
                  show: ({ key }) => (
                    <Link to="/explore/$stream" params={{ stream: "cuda_call" }} search={(before) => ({ ...before, view: undefined, where: `kind = '${String(key.kind)}'` })}>
                      {cell(key.kind)}
                    </Link>
                  ),
                },
                { name: t`copies`, number: true, show: ({ values }) => count(Number(values.count ?? 0)) },
                { name: t`bytes`, number: true, show: ({ values }) => bytes(Number(values[BYTES] ?? 0)) },
                { name: t`time`, number: true, show: ({ values }) => duration(Number(values[TIME] ?? 0)) },
                { name: t`median bandwidth`, number: true, show: ({ values }) => rate(values[USUAL]) },
                { name: t`highest`, number: true, show: ({ values }) => rate(values[BEST]) },
              ]}
            />
          )
        }
      </Shown>
      <p className="soft">
        <Trans>Bandwidth is known of copies whose call waits until the copy is done.</Trans>
      </p>
    </section>
  );
}
