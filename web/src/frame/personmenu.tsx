import { useLingui } from "@lingui/react/macro";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { Button, Menu, MenuItem, MenuTrigger, Popover } from "react-aria-components";

import { me, signOut } from "../api/session";
import { LANGUAGES, type Language, setTheme, speak, type Theme, theme } from "./preferences";

/** Who is signed in; theme and language; signing out. */
export default function PersonMenu() {
  const { t, i18n } = useLingui();
  const { data } = useQuery(me);
  const [chosen, setChosen] = useState<Theme>(theme());
  const navigate = useNavigate();
  const queries = useQueryClient();
  const themes: Record<Theme, string> = { auto: t`Theme of the system`, light: t`Light`, dark: t`Dark` };
  const act = async (key: string) => {
    if (key in themes) {
      setTheme(key as Theme);
      setChosen(key as Theme);
    } else if (key in LANGUAGES) await speak(key as Language);
    else if (key === "account") await navigate({ to: "/users" });
    else {
      await signOut().catch(() => undefined);
      queries.clear();
      await navigate({ to: "/sign-in", search: {} });
    }
  };
  return (
    <MenuTrigger defaultOpen>
      <Button className="button clip person">{data?.name ?? "…"}</Button>
      <Popover placement="bottom end">
        <Menu className="menu-list" aria-label={t`Account`} onAction={(key) => void act(String(key))}>
          <MenuItem id="account">
            {data?.role} · {t`account and tokens`}
          </MenuItem>
          {(Object.keys(themes) as Theme[]).map((one) => (
            <MenuItem key={one} id={one}>
              {one === chosen ? "● " : "○ "}
              {themes[one]}
            </MenuItem>
          ))}
          {Object.entries(LANGUAGES).map(([key, name]) => (
            <MenuItem key={key} id={key}>
              {key === i18n.locale ? "● " : "○ "}
              {name}
            </MenuItem>
          ))}
          <MenuItem id="sign-out">{t`Sign out`}</MenuItem>
        </Menu>
      </Popover>
    </MenuTrigger>
  );
}
