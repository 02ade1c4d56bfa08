import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";

import { bytes, type Query } from "../api/client";
import type { Stream } from "../api/columns";
import { Find } from "../parts/find";
import { quantity, visible } from "../parts/format";
import { FlameGraph } from "../parts/flamegraph/flamegraph";
import type { Frames } from "../parts/flamegraph/frames";
import { functions } from "../parts/flamegraph/functions";
import { readFrames } from "../parts/flamegraph/read";
import { below, inverted } from "../parts/flamegraph/turned";
import { useAddress } from "../parts/search";
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
  const [search, change] = useAddress();
  const { flame: find = "", turned, zoom } = search;
  const answer = useQuery({
    queryKey: ["flames", stream.name, ...cacheKey, query.by],
    queryFn: async ({ signal }) => readFrames(await bytes(`flamegraph/${stream.name}`, { ...query, format: "arrow" }, signal)),
    refetchInterval: live && 30_000,
    placeholderData: (before) => before,
  });
  const frames = answer.data;
  const of = useMemo(() => labelOf(frames, search.function), [frames, search.function]);
  const setOf = (label: number | undefined) => change({ function: label === undefined ? undefined : frames?.labels[label], zoom: undefined });
  const zooms = { find, place: zoom, onZoom: (place: string | undefined) => change({ zoom: place }) };
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
              <Find name="flame" label={t`Find a function`} placeholder={t`Find a function, or /pattern/`} />
              <button type="button" aria-pressed={turned !== undefined} onClick={() => change({ turned: turned ? undefined : "1", zoom: undefined })}>
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
            <FlameGraph frames={shown} {...zooms} onFunction={setOf} height={of === undefined ? 460 : 240} />
            {callees && <FlameGraph frames={callees} {...zooms} height={240} />}
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

/** The number of a function; undefined: none is chosen, or it is not in this graph. */
function labelOf(frames: Frames | undefined, name: string | undefined): number | undefined {
  const found = name === undefined ? -1 : (frames?.labels.indexOf(name) ?? -1);
  return found < 0 ? undefined : found;
}
