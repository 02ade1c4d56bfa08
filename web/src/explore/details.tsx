import { Trans, useLingui } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";
import { Dialog, Modal, ModalOverlay } from "react-aria-components";

import type { Row } from "../api/answers";
import { kindOf, measured, ordered, type Stream } from "../api/columns";
import { filterOf } from "../parts/grammar";
import { also } from "../parts/complete";
import { cell, cellOf, moment } from "../parts/format";
import { meaning } from "../parts/meaning";
import { named } from "../parts/process";
import { useAddress } from "../parts/search";

interface Props {
  stream: Stream;
  row: Row;
  close: () => void;
}

const AROUND_MS = 2000; // of a trace on both sides of its row

/** All of one row: values with what they mean, filters made from them, and the trace around it. */
export function Details({ stream, row, close }: Props) {
  const { t } = useLingui();
  const [search, change] = useAddress();
  const at = new Date(String(row.time)).getTime();
  const lasted = Number(row[measured(stream)?.name ?? ""] ?? 0) / 1e6;
  const window = {
    machine: String(row.machine_id),
    since: new Date(at - AROUND_MS).toISOString(),
    until: new Date(at + (Number.isFinite(lasted) ? lasted : 0) + AROUND_MS).toISOString(),
  };
  return (
    <ModalOverlay isOpen isDismissable onOpenChange={(open) => !open && close()}>
      <Modal className="react-aria-Modal details">
        <Dialog aria-label={t`Row`}>
          <header className="row">
            <h2>
              {stream.name} · {moment(String(row.time))}
            </h2>
            <span className="spring" />
            <Link to="/traces" search={{ ...window, with: stream.name }} className="button">
              <Trans>Trace around it</Trans>
            </Link>
            {row.pid !== undefined && row.pid !== null && (
              <Link to="/why" search={{ ...window, ...named(row.pid, row.start_ns) }} className="button">
                <Trans>Why?</Trans>
              </Link>
            )}
            <button type="button" onClick={close} aria-label={t`Close`}>
              ×
            </button>
          </header>
          <table className="plain">
            <tbody>
              {ordered(stream).map((column) => {
                const value = row[column.name];
                const text = cellOf(row, column);
                return (
                  <tr key={column.name}>
                    <td>
                      <code title={meaning(column.meaning)}>{column.name}</code>
                    </td>
                    <td className="break mono details-value">{column.stack ? <StackLines stack={String(value ?? "")} /> : text}</td>
                    <td className="details-acts">
                      {kindOf(column) !== "list" && !column.stack && (
                        <>
                          <button type="button" className="quiet" title={t`Only such rows`} onClick={() => change({ where: also(filterOf(search, stream), column, value) })}>
                            =
                          </button>
                          <button type="button" className="quiet" title={t`Without such rows`} onClick={() => change({ where: also(filterOf(search, stream), column, value, true) })}>
                            ≠
                          </button>
                        </>
                      )}
                    </td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </Dialog>
      </Modal>
    </ModalOverlay>
  );
}

function StackLines({ stack }: { stack: string }) {
  return (
    <ol className="stack">
      {stack.split(";").map((frame, depth) => (
        <li key={depth}>{cell(frame)}</li>
      ))}
    </ol>
  );
}
