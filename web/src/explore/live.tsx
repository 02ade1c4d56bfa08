import { Trans, useLingui } from "@lingui/react/macro";
import { useState } from "react";

import type { Row } from "../api/answers";
import type { Stream } from "../api/columns";
import { useLive } from "../api/live";
import { count } from "../parts/format";
import { Rows } from "../parts/rows";
import { useAddress } from "../parts/search";
import { Partial } from "../parts/states";
import { chosen } from "./columns";

/** Rows as they are stored. */
export function LiveRows({ stream, onOpen }: { stream: Stream; onOpen: (row: Row) => void }) {
  const { t } = useLingui();
  const [search] = useAddress();
  const [paused, setPaused] = useState(false);
  const [held, setHeld] = useState<Row[]>([]);
  const live = useLive(stream.name, { where: search.where, machine: search.machine }, true);
  const rows = paused ? held : live.rows;
  return (
    <>
      <div className="row">
        <button
          type="button"
          aria-pressed={paused}
          onClick={() => {
            setHeld(live.rows);
            setPaused(!paused);
          }}
        >
          {paused ? t`Go on` : t`Pause`}
        </button>
        <span className="soft" role="status" data-live={live.state}>
          {live.state === "open" ? t`${count(rows.length)} newest rows` : live.state === "away" ? t`connecting again …` : t`connecting …`}
        </span>
      </div>
      {live.missed > 0 && (
        <Partial>
          <Trans>{count(live.missed)} rows came faster than this page takes them. They are stored.</Trans>
        </Partial>
      )}
      {live.problem && <Partial>{live.problem}</Partial>}
      <Rows label={t`Newest rows of ${stream.name}`} rows={rows} columns={chosen(stream, search)} onOpen={onOpen} />
    </>
  );
}
