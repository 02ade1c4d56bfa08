import { useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type KeyboardEvent, useMemo, useState } from "react";
import { Dialog, Modal, ModalOverlay } from "react-aria-components";

import { streams } from "../api/catalogue";
import { nodes } from "../nodes/nodes.api";
import { processes } from "../nodes/processes.api";
import { RanSince } from "../nodes/ransince";
import { visible } from "../parts/format";
import { meaning } from "../parts/meaning";
import { named } from "../parts/process";
import { type Search, useAddress } from "../parts/search";
import { activeTasks, templates } from "../tasks/tasks.api";
import { targetOf } from "../tasks/tasktable";
import { SCREENS } from "./screens";

const SHOWN = 12;

interface Place {
  name: string;
  detail: string;
  to: string;
  search?: Search;
}

/** A dialog that finds places by words of their names. */
export default function Places({ close }: { close: () => void }) {
  const { t } = useLingui();
  return (
    <ModalOverlay isOpen onOpenChange={(open) => !open && close()} isDismissable>
      <Modal>
        <Dialog aria-label={t`Go to`}>
          <Finder close={close} />
        </Dialog>
      </Modal>
    </ModalOverlay>
  );
}

function Finder({ close }: { close: () => void }) {
  const { t, i18n } = useLingui();
  const [search] = useAddress();
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState(0);
  const navigate = useNavigate();
  const known = useQuery(streams).data;
  const machines = useQuery(nodes).data;
  const tasks = useQuery(activeTasks).data;
  const kinds = useQuery(templates).data;
  const running = useQuery(processes(search.machine)).data;
  const places = useMemo<Place[]>(
    () => [
      ...SCREENS.map((screen) => ({ name: i18n._(screen.name), detail: "", to: screen.to })),
      { name: t`Start a task`, detail: "", to: "/start" },
      { name: t`Not recorded`, detail: "", to: "/losses" },
      { name: t`Storage`, detail: "", to: "/users", search: { view: "storage" } },
      ...(known ?? []).map((stream) => ({ name: stream.name, detail: meaning(stream.meaning), to: `/explore/${stream.name}` })),
      ...(machines ?? []).map((node) => ({ name: node.hostname, detail: node.kernel, to: `/nodes/${node.machine_id}` })),
      ...(tasks ?? []).map((task) => ({ name: t`task ${task.probe}`, detail: `${task.hostname} ${targetOf(task)}`, to: `/tasks/${task.task_id}` })),
      ...(kinds ?? []).map((one) => ({ name: t`template ${one.name}`, detail: meaning(one.meaning), to: "/start", search: { template: one.name } })),
      ...(running?.all ?? []).map((one) => ({ name: `${visible(one.comm)} ${one.pid}`, detail: one.hostname, to: "/why", search: { machine: one.hostname, ...named(one.pid, one.start) } })),
    ],
    [known, machines, tasks, kinds, running, i18n, t],
  );
  const words = text.toLowerCase().split(/\s+/);
  const matching = places.filter((place) => words.every((word) => `${place.name} ${place.detail}`.toLowerCase().includes(word)));
  const found = matching.slice(0, SHOWN);
  const hidden = matching.length - found.length;
  const go = (place: Place | undefined) => {
    if (!place) return;
    close();
    void navigate({ to: place.to, search: place.search });
  };
  const press = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") setChosen((before) => Math.min(before + 1, found.length - 1));
    else if (event.key === "ArrowUp") setChosen((before) => Math.max(before - 1, 0));
    else if (event.key === "Enter") go(found[chosen]);
    else return;
    event.preventDefault();
  };
  return (
    <div className="goto">
      <input
        autoFocus
        role="combobox"
        aria-expanded
        aria-controls="places"
        aria-activedescendant={`place-${chosen}`}
        aria-label={t`Screen, stream, machine, task or process`}
        placeholder={t`Screen, stream, machine, task or process`}
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setChosen(0);
        }}
        onKeyDown={press}
      />
      <ul id="places" role="listbox" aria-label={t`Places`}>
        {found.map((place, number) => (
          <li key={`${place.to} ${place.name} ${place.detail}`} id={`place-${number}`} role="option" aria-selected={number === chosen} onClick={() => go(place)}>
            {place.name} <span className="soft clip">{place.detail}</span>
          </li>
        ))}
      </ul>
      {hidden > 0 && <p className="soft">{t`${hidden} hidden: write more of the name`}</p>}
      <RanSince since={running?.since} />
    </div>
  );
}
