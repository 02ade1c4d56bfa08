import { useLingui } from "@lingui/react/macro";

import type { components } from "../api/schema";
import { cell } from "../parts/format";
import { Parts } from "./parts";
import { Peers } from "./peers";

/** What a process did and waited for, by kind: calls, files, page faults, locks, disks, peers. */
export function Things({ answer }: { answer: components["schemas"]["Why"] }) {
  const { t } = useLingui();
  const held = (address: string, holder: string | null, tid: number | null) => {
    if (holder === null) return address;
    const name = `${cell(holder)} ${tid ?? ""}`.trim();
    return t`${address}, held by ${name}`;
  };
  const waited = ({ path, file_kind: kind, disk, remote, remote_port: port }: components["schemas"]["CallTime"]) => {
    if (remote !== null) return `${cell(kind)} ${remote.includes(":") ? `[${remote}]` : remote}:${port}`;
    return `${path ?? kind ?? ""} ${disk === null ? "" : `(${disk})`}`.trim();
  };
  return (
    <>
      <div className="cards">
        <Parts
          title={t`Blocked in`}
          rows={answer.calls.map((one) => ({ name: `${cell(one.call)} ${waited(one)}`, count: one.count, ns: one.blocked_ns }))}
        />
        <Parts title={t`Syscalls`} rows={answer.syscalls.map((one) => ({ name: cell(one.name), count: one.count, ns: one.total_ns, failed: one.errors }))} />
        <Parts title={t`Locks`} rows={answer.locks.map((one) => ({ name: held(one.address, one.holder, one.holder_tid), count: one.count, ns: one.total_ns }))} />
        <Parts
          title={t`Files`}
          rows={answer.files.map((one) => ({ name: cell(one.path), bytes: one.read_bytes + one.write_bytes, ns: one.read_ns + one.write_ns }))}
        />
        <Parts
          title={t`Disks`}
          rows={answer.disks.map((one) => ({ name: `${cell(one.disk)} ${cell(one.operation)}`, count: one.count, bytes: one.bytes, ns: one.queue_ns + one.device_ns }))}
        />
        <Parts title={t`Page faults`} rows={answer.faults.map((one) => ({ name: cell(one.kind), count: one.count, ns: one.total_ns }))} />
      </div>
      {answer.peers.length > 0 && <Peers peers={answer.peers} />}
    </>
  );
}
