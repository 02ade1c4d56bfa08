import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";

import { api, data } from "../api/client";
import { useCards } from "../parts/cards";
import { named } from "../parts/process";
import { askedOf, readRequest } from "../parts/request";
import { useAddress } from "../parts/search";
import { Shown } from "../parts/states";
import { askedPart, isLive } from "../parts/times";
import { Choose } from "./choose";
import { Machine } from "./machine";
import { Told } from "./told";
import "./why.css";

/** Why a process or a request took its time; without one, what the machine did, and a choice of processes. */
export function Why() {
  const { t } = useLingui();
  const [search, change] = useAddress();
  const request = readRequest(search.request);
  const pid = Number(search.pid);
  const start = search.start ? Number(search.start) : undefined;
  const { machine } = search;
  const chosen = request !== undefined || pid > 0;
  useCards(chosen ? [{ name: t`Its times, threads and calls`, lacks: [] }] : []); // they are of the whole process
  const found = useQuery({
    queryKey: request ? ["why", search.request, machine] : ["why", pid, start, machine, search.since, search.until, search.brushed],
    queryFn: ({ signal }) => {
      const query = request ? { ...askedOf(request), machine } : { ...askedPart(search), pid, start, machine };
      return data(api.GET("/api/v1/why", { params: { query }, signal }));
    },
    enabled: chosen,
    refetchInterval: !request && isLive(search) && 15_000,
    placeholderData: (before) =>
      !request && !before?.request && before?.pid === pid && (start === undefined || before.start_ns === start) ? before : undefined,
  });
  return (
    <div className="screen">
      <header>
        <h1>
          <Trans>Why</Trans>
        </h1>
        {chosen && (
          <button type="button" onClick={() => change({ pid: undefined, start: undefined, request: undefined })}>
            <Trans>Another process</Trans>
          </button>
        )}
      </header>
      {chosen ? (
        <Shown of={found} height={300}>
          {(answer) => <Told answer={answer} />}
        </Shown>
      ) : (
        <>
          <Machine />
          <Choose onChoose={(one) => change({ ...named(one.pid, one.start), machine: one.hostname })} />
        </>
      )}
    </div>
  );
}
