import { Trans, useLingui } from "@lingui/react/macro";

import { Top } from "../parts/top";
import { Devices } from "./devices";
import { Facts } from "./facts";
import { LossList } from "./losses";
import "./overview.css";
import { Rates } from "./rates";

/** The fleet at a glance; every number leads to where it comes from. */
export function Overview() {
  const { t } = useLingui();
  return (
    <div className="screen">
      <header>
        <h1>
          <Trans>Overview</Trans>
        </h1>
      </header>
      <Facts />
      <Rates />
      <div className="cards">
        <Top title={t`Time on a CPU`} stream="sched_summary" by="comm" />
        <Top title={t`Waiting for a CPU`} stream="sched_process_summary" by="comm" />
        <Top title={t`Syscalls`} stream="syscall_summary" by="comm" cell="count" />
      </div>
      <div className="cards">
        <LossList />
        <Devices />
      </div>
    </div>
  );
}
