import { Trans, useLingui } from "@lingui/react/macro";

import type { Probe } from "../api/answers";
import { type Compared, kindOf } from "../api/columns";
import type { ApiError } from "../api/problem";
import { FilterBar } from "../parts/filterbar";
import type { Value } from "./command";
import { Options } from "./options";

interface Props {
  probe: Probe;
  options: Record<string, Value>;
  where: string;
  onOptions: (options: Record<string, Value>) => void;
  onWhere: (where: string) => void;
  problem?: ApiError;
}

/** A probe's options, and which of its rows are recorded. */
export function How({ probe, options, where, onOptions, onWhere, problem }: Props) {
  const { t } = useLingui();
  const recorded = recordedWith(probe, options);
  return (
    <>
      <Options probe={probe} values={options} onChange={onOptions} problem={problem} />
      <div className="field">
        <span className="soft">
          <Trans>Only rows that meet a filter; empty: all</Trans>
        </span>
        <FilterBar label={t`Only rows that meet a filter; empty: all`} columns={columnsOf(recorded)} among={recorded} value={where} problem={problem?.of("where") || problem?.of("parts/0/where")} onChange={onWhere} />
      </div>
    </>
  );
}

/** The streams that are recorded with these options. */
function recordedWith(probe: Probe, options: Record<string, Value>): Probe["streams"] {
  const mode = options.mode ?? probe.options.properties.mode?.default;
  return probe.streams.filter((one) => !mode || one.mode === mode);
}

/** The columns of streams, each once. */
function columnsOf(streams: Probe["streams"]): Compared[] {
  const found = new Map(streams.flatMap((one) => one.columns).map((column) => [column.name, column]));
  return [...found.values()].filter((column) => kindOf(column) !== "list");
}
