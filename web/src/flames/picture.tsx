import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";

import { bytes, type Query } from "../api/client";
import type { Stream } from "../api/columns";
import { quantity, visible } from "../parts/format";
import { FlameGraph } from "../parts/flamegraph/flamegraph";
import { readFrames } from "../parts/flamegraph/frames";
import { functions } from "../parts/flamegraph/functions";
import { below, inverted } from "../parts/flamegraph/turned";
import { Empty, Partial, Shown } from "../parts/states";
import { Table } from "../parts/table";
import "./flames.css";

interface Props {
  stream: Pick<Stream, "name">;
  query: Query;
  cacheKey: unknown[];
  difference?: boolean;
  live?: boolean;
}

const TOP = 12;

/** A flame graph of a stream, with search, the other way round, and by function. */
export function FlamePicture({ stream, query, cacheKey, difference = false, live = false }: Props) {
  const { t } = useLingui();
  const [find, setFind] = useState("");
  const [turned, setTurned] = useState(false);
  const [of, setOf] = useState<number>();
  const answer = useQuery({
    queryKey: ["flames", stream.name, ...cacheKey, query.by],
    queryFn: async ({ signal }) => readFrames(await bytes(`flamegraph/${stream.name}`, { ...query, format: "arrow" }, signal)),
    refetchInterval: live && 30_000,
    placeholderData: (before) => before,
  });
  const frames = answer.data;
  const shown = useMemo(() => frames && (of !== undefined ? inverted(frames, of) : turned ? inverted(frames) : frames), [frames, turned, of]);
  const callees = useMemo(() => (frames && of !== undefined ? below(frames, of) : undefined), [frames, of]);
  const top = useMemo(() => (frames ? functions(frames) : []), [frames]);
  return (
    <Shown of={answer} height={420}>
      {(whole) =>
        whole.count < 2 || !shown ? (
          <Empty title={<Trans>No stacks in this window</Trans>} />
        ) : (
          <div className="flames-picture">
            {whole.complete !== "true" && (
              <Partial>
                <Trans>Sampled: {whole.complete} were read.</Trans>
              </Partial>
            )}
            <div className="row">
              <input type="search" aria-label={t`Find a function`} placeholder={t`Find a function, or /pattern/`} value={find} onChange={(event) => setFind(event.target.value)} />
              <button type="button" aria-pressed={turned} onClick={() => setTurned(!turned)}>
                <Trans>Inverted</Trans>
              </button>
              {of !== undefined && (
                <button type="button" onClick={() => setOf(undefined)}>
                  <Trans>Callers and callees of {visible(whole.labels[of] ?? "").slice(0, 60)}</Trans> ×
                </button>
              )}
              {difference && (
                <span className="flames-key soft">
                  <i className="more" /> <Trans>more inside</Trans> <i className="less" /> <Trans>less inside</Trans>
                </span>
              )}
            </div>
            <FlameGraph frames={shown} find={find} onFunction={setOf} height={of === undefined ? 460 : 240} />
            {callees && <FlameGraph frames={callees} find={find} height={240} />}
            {!difference && (
              <Table
                rows={top}
                first={TOP}
                keyOf={(one) => one.label}
                fields={[
                  {
                    name: t`Function`,
                    show: (one) => (
                      <button type="button" className="quiet break flames-function" onClick={() => setOf(one.label)}>
                        {visible(whole.labels[one.label] ?? "")}
                      </button>
                    ),
                  },
                  { name: t`self`, number: true, show: (one) => quantity(one.self, whole.unit) },
                  { name: t`with callees`, number: true, show: (one) => quantity(one.total, whole.unit) },
                ]}
              />
            )}
          </div>
        )
      }
    </Shown>
  );
}
