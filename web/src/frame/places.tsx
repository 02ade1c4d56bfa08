import { useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type KeyboardEvent, useMemo, useState } from "react";
import { Dialog, Modal, ModalOverlay } from "react-aria-components";

import { streams } from "../api/catalogue";
import { nodes } from "../nodes/nodes.api";
import { SCREENS } from "./screens";

interface Place {
  name: string;
  detail: string;
  to: string;
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
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState(0);
  const navigate = useNavigate();
  const known = useQuery(streams).data;
  const machines = useQuery(nodes).data;
  const places = useMemo<Place[]>(
    () => [
      ...SCREENS.map((screen) => ({ name: i18n._(screen.name), detail: "", to: screen.to })),
      { name: t`Start a task`, detail: "", to: "/start" },
      ...(known ?? []).map((stream) => ({ name: stream.name, detail: stream.meaning, to: `/explore/${stream.name}` })),
      ...(machines ?? []).map((node) => ({ name: node.hostname, detail: node.kernel, to: `/nodes/${node.machine_id}` })),
    ],
    [known, machines, i18n, t],
  );
  const words = text.toLowerCase().split(/\s+/);
  const found = places.filter((place) => words.every((word) => `${place.name} ${place.detail}`.toLowerCase().includes(word))).slice(0, 12);
  const go = (place: Place | undefined) => {
    if (!place) return;
    close();
    void navigate({ to: place.to });
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
        aria-label={t`Screen, stream or machine`}
        placeholder={t`Screen, stream or machine`}
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setChosen(0);
        }}
        onKeyDown={press}
      />
      <ul id="places" role="listbox" aria-label={t`Places`}>
        {found.map((place, number) => (
          <li key={place.to} id={`place-${number}`} role="option" aria-selected={number === chosen} onClick={() => go(place)}>
            {place.name} <span className="soft clip">{place.detail}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}
