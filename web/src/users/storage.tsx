import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";

import { api, data } from "../api/client";
import { Bars } from "../parts/bars";
import { bytes } from "../parts/format";
import { Partial, Shown } from "../parts/states";

/** How much is stored, and what was deleted to stay within the limits. */
export function Storage() {
  const { t } = useLingui();
  const found = useQuery({ queryKey: ["storage"], queryFn: ({ signal }) => data(api.GET("/api/v1/storage", { signal })) });
  return (
    <section className="card">
      <h2>
        <Trans>Storage</Trans>
      </h2>
      <Shown of={found} height={200}>
        {(storage) => (
          <>
            {storage.problem && <Partial>{storage.problem}</Partial>}
            <p>
              <Trans>
                <b>{bytes(storage.bytes ?? 0)}</b> of {bytes(storage.limit_bytes)} are used, {bytes(storage.wal_bytes ?? 0)} of them by the write-ahead log;{" "}
                {bytes(storage.free_bytes ?? 0)} are free on the disk. The oldest day goes first.
              </Trans>
            </p>
            <Bars bars={storage.days.map((day) => ({ name: String(day.day), value: day.bytes ?? 0, told: bytes(day.bytes ?? 0) }))} />
            {storage.dropped.length > 0 && (
              <p className="soft">
                {t`Deleted:`} {storage.dropped.map((day) => String(day.day)).join(", ")}
              </p>
            )}
          </>
        )}
      </Shown>
    </section>
  );
}
