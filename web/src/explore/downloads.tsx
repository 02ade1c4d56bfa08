import { useLingui } from "@lingui/react/macro";
import { Button, Menu, MenuItem, MenuTrigger, Popover } from "react-aria-components";

import { address } from "../api/client";
import type { Stream } from "../api/columns";
import { useAsked } from "../parts/asked";
import { useAddress } from "../parts/search";
import { chosen } from "./columns";

const FORMATS = ["ndjson", "csv", "parquet", "arrow"];

/** What is seen, as a file. */
export function Downloads({ stream }: { stream: Stream }) {
  const { t } = useLingui();
  const [search] = useAddress();
  const { now } = useAsked(stream.name);
  const columns = search.columns ? chosen(stream, search).map((one) => one.name).join(",") : undefined;
  return (
    <MenuTrigger>
      <Button className="button">{t`Download`}</Button>
      <Popover placement="bottom end">
        <Menu className="menu-list" aria-label={t`Download`}>
          {FORMATS.map((format) => (
            <MenuItem key={format} href={address(`export/${stream.name}`, { ...now(), columns, format })} download={`${stream.name}.${format}`} routerOptions={undefined}>
              {format === "ndjson" ? "NDJSON" : format === "csv" ? "CSV" : format === "arrow" ? "Arrow" : "Parquet"}
            </MenuItem>
          ))}
        </Menu>
      </Popover>
    </MenuTrigger>
  );
}
