import { Trans, useLingui } from "@lingui/react/macro";
import { Button, Dialog, DialogTrigger, Popover } from "react-aria-components";

import { type Column, ordered, type Stream, usual } from "../api/columns";
import { meaning } from "../parts/meaning";
import { type Search, useAddress } from "../parts/search";

/** The columns that the address names, or the usual ones. */
export function chosen(stream: Stream, search: Search): Column[] {
  const names = search.columns ? search.columns.split(",") : usual(stream);
  return names.flatMap((name) => stream.columns.filter((one) => one.name === name));
}

/** Which columns are shown. */
export function Columns({ stream }: { stream: Stream }) {
  const { t } = useLingui();
  const [search, change] = useAddress();
  const shown = chosen(stream, search).map((one) => one.name);
  const hidden = stream.columns.length - shown.length;
  const toggle = (name: string) => {
    const next = shown.includes(name) ? shown.filter((one) => one !== name) : [...shown, name];
    change({ columns: next.join(",") || undefined }, true);
  };
  return (
    <DialogTrigger>
      <Button className="button">{t`Columns (${hidden} hidden)`}</Button>
      <Popover placement="bottom end">
        <Dialog className="column-list" aria-label={t`Columns`}>
          {ordered(stream).map((column) => (
            <label key={column.name}>
              <input type="checkbox" checked={shown.includes(column.name)} onChange={() => toggle(column.name)} />
              <code>{column.name}</code>
              <span className="soft">{meaning(column.meaning)}</span>
            </label>
          ))}
          <button type="button" onClick={() => change({ columns: undefined }, true)}>
            <Trans>The usual ones</Trans>
          </button>
        </Dialog>
      </Popover>
    </DialogTrigger>
  );
}
