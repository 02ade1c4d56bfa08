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
  return (
    <>
      <Options probe={probe} values={options} onChange={onOptions} problem={problem} />
      <div className="field">
        <span className="soft">
          <Trans>Only rows that meet a filter; empty: all</Trans>
        </span>
        <FilterBar label={t`Only rows that meet a filter; empty: all`} columns={columnsOf(probe, options)} value={where} problem={problem?.of("where") || problem?.of("parts/0/where")} onChange={onWhere} />
      </div>
    </>
  );
}

/** The columns of the streams that are recorded with these options, each once. */
function columnsOf(probe: Probe, options: Record<string, Value>): Compared[] {
  const mode = options.mode ?? probe.options.properties.mode?.default;
  const recorded = probe.streams.filter((one) => !mode || one.mode === mode);
  const found = new Map(recorded.flatMap((one) => one.columns).map((column) => [column.name, column]));
  return [...found.values()].filter((column) => kindOf(column) !== "list");
}
