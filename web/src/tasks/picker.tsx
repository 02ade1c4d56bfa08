import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { processes } from "../nodes/processes.api";
import { RanSince } from "../nodes/ransince";
import { Cut } from "../parts/cut";
import { share, visible } from "../parts/format";

export interface Target {
  pid?: number;
  comm?: string;
  exe?: string;
  cgroup?: string;
  container?: string;
}

const TEXTS = ["comm", "exe", "cgroup", "container"] as const;
const SHOWN = 12;

interface Props {
  /** Empty: several, of which no process is listed. */
  machine: string;
  target: Target;
  onChange: (target: Target) => void;
}

/** Whom to watch: a process that runs now, or all that match; nothing chosen: the whole machine. */
export function Picker({ machine, target, onChange }: Props) {
  const { t } = useLingui();
  const [find, setFind] = useState("");
  const listed = useQuery({ ...processes(machine || undefined), enabled: machine !== "" }).data;
  const running = machine === "" ? [] : (listed?.all ?? []); // not the ones of the machine before
  const words = find.toLowerCase().split(/\s+/);
  const found = running.filter((one) => words.every((word) => `${one.pid} ${one.comm}`.toLowerCase().includes(word)));
  const names: Record<(typeof TEXTS)[number], string> = {
    comm: t`Name of threads`,
    exe: t`Path of the executable`,
    cgroup: t`cgroup`,
    container: t`Container`,
  };
  return (
    <>
      {machine !== "" && (
        <div className="field">
          <label htmlFor="process">{t`Find a process`}</label>
          <input id="process" type="search" placeholder={t`name or pid`} value={find} onChange={(event) => setFind(event.target.value)} />
        </div>
      )}
      <Cut all={found} first={SHOWN}>
        {(shown) => (
          <ul className="choices picker" aria-label={t`Processes`} hidden={shown.length === 0}>
            {shown.map((one) => (
              <li key={one.pid}>
                <button type="button" className="quiet" aria-pressed={target.pid === one.pid} onClick={() => onChange(target.pid === one.pid ? {} : { pid: one.pid })}>
                  <span className="number">{one.pid}</span>
                  <span className="clip">{visible(one.comm)}</span>
                  <span className="number soft">{share(one.onCpu)}</span>
                </button>
              </li>
            ))}
          </ul>
        )}
      </Cut>
      {machine !== "" && <RanSince since={listed?.since} />}
      <details open={machine === "" || TEXTS.some((name) => target[name])}>
        <summary>
          <Trans>By name, path, cgroup or container</Trans>
        </summary>
        {TEXTS.map((name) => (
          <div className="field" key={name}>
            <label htmlFor={name}>{names[name]}</label>
            <input id={name} className="mono" value={target[name] ?? ""} onChange={(event) => onChange({ ...target, [name]: event.target.value || undefined })} />
          </div>
        ))}
      </details>
      <p className="soft">
        {Object.values(target).some(Boolean) ? (
          <Trans>Only what matches is watched, and the children that it starts.</Trans>
        ) : (
          <Trans>The whole machine is watched.</Trans>
        )}
      </p>
    </>
  );
}
