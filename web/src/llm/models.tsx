import { Trans, useLingui } from "@lingui/react/macro";
import { useQueries } from "@tanstack/react-query";

import { api, data } from "../api/client";
import { bytes, cell, clock, duration } from "../parts/format";
import { useAddress } from "../parts/search";
import { useTotals } from "../parts/series";
import { Shown } from "../parts/states";
import { Table } from "../parts/table";
import { asked } from "../parts/times";
import { type Model, useNewest } from "./llm.api";

const SHOWN = 20;
const MODEL_FILE = /\.gguf$/i;

interface Used {
  key: string;
  comm: string;
  pid: number;
  /** The model's file; null: nothing tells of it. */
  path: string | null;
  loaded?: Model;
}

/** The models of the programs that generated tokens or loaded a file: as recorded, or as their command lines say. */
export function Models() {
  const { t } = useLingui();
  const loaded = useNewest<Model>("ollama_model", SHOWN + 1);
  const programs = useTotals({ stream: "llama_token", by: ["machine", "pid", "start_ns", "comm"], top: SHOWN + 1 });
  const hidden = [loaded.data ?? [], programs.data?.groups ?? []].some((one) => one.length > SHOWN);
  const commands = useCommands((programs.data?.groups ?? []).map(({ key }) => String(key.machine_id)));
  const used: Used[] = (loaded.data ?? []).slice(0, SHOWN).map((one) => ({ key: `${one.machine_id} ${one.pid} ${one.path} ${one.time}`, comm: one.comm, pid: one.pid, path: one.path, loaded: one }));
  for (const { key } of programs.data?.groups.slice(0, SHOWN) ?? []) {
    const isThis = (one: { machine_id: string; pid: number; start_ns: number }) => one.machine_id === key.machine_id && one.pid === key.pid && one.start_ns === key.start_ns;
    if (loaded.data?.some(isThis)) continue;
    const path = commands.find(isThis)?.cmdline.find((word) => MODEL_FILE.test(word)) ?? null;
    used.push({ key: Object.values(key).join(" "), comm: String(key.comm), pid: Number(key.pid), path });
  }
  return (
    <section className="card scroll">
      <h2>
        <Trans>Models</Trans>
      </h2>
      <Shown of={loaded} height={100}>
        {() =>
          used.length === 0 ? (
            <p className="soft">
              <Trans>None in this window; the probe ollama records which model a program loads.</Trans>
            </p>
          ) : (
            <>
              <Table
                rows={used}
                keyOf={(one) => one.key}
                fields={[
                  { name: t`Program`, show: (one) => <>{cell(one.comm)} <span className="soft">{one.pid}</span></> },
                  { name: t`Model`, className: "break mono", show: (one) => (one.path === null ? <span className="soft">{t`not recorded: it was loaded before`}</span> : cell(one.path)) },
                  { name: t`loaded`, show: ({ loaded, path }) => (loaded ? clock(loaded.time) : path === null ? "–" : <span className="soft">{t`before; as its command says`}</span>) },
                  { name: t`size`, number: true, show: ({ loaded }) => (loaded ? bytes(loaded.file_bytes) : "–") },
                  { name: t`took`, number: true, show: ({ loaded }) => (loaded ? duration(loaded.duration_ns) : "–") },
                ]}
              />
              {hidden && <p className="soft">{t`More programs are hidden; a filter narrows them`}</p>}
            </>
          )
        }
      </Shown>
    </section>
  );
}

/** The commands of the processes of machines, as far as they are recorded. */
function useCommands(machines: string[]) {
  const [search] = useAddress();
  const answers = useQueries({
    queries: [...new Set(machines)].map((machine) => ({
      queryKey: ["commands", machine, search.since, search.until],
      queryFn: ({ signal }: { signal: AbortSignal }) => data(api.GET("/api/v1/processes", { params: { query: { ...asked(search), machine } }, signal })),
      staleTime: 60_000,
    })),
  });
  return answers.flatMap(({ data: found }) => (found?.processes ?? []).map((one) => ({ ...one, machine_id: found?.machine_id ?? "", cmdline: one.cmdline ?? [] })));
}
