import { Trans, useLingui } from "@lingui/react/macro";
import { Link, Outlet } from "@tanstack/react-router";
import { useState } from "react";

import { TimeBar } from "../parts/timebar";
import { Away } from "./away";
import { Applied, BarFilter } from "./filter";
import "./frame.css";
import { GoTo } from "./goto";
import { MachineChoice } from "./machines";
import { Person } from "./person";
import { SCREENS } from "./screens";

/** What is around every screen: the navigation, and one bar with time range, machine, filter and selection. */
export function Frame() {
  const { t, i18n } = useLingui();
  const [open, setOpen] = useState(false);
  return (
    <div className="frame">
      <a className="skip" href="#screen">
        <Trans>Skip to the content</Trans>
      </a>
      <nav className={open ? "open" : ""} aria-label={t`Screens`}>
        <Link to="/" className="brand">
          <img src="/icon.svg" alt="" width={22} height={22} /> SCOPE
        </Link>
        {SCREENS.map((screen) => (
          <Link key={screen.to} to={screen.to} activeOptions={{ exact: screen.to === "/", includeSearch: false }} onClick={() => setOpen(false)}>
            {i18n._(screen.name)}
          </Link>
        ))}
      </nav>
      <header className="bar">
        <button type="button" className="menu quiet" aria-expanded={open} aria-label={t`Screens`} onClick={() => setOpen(!open)}>
          ☰
        </button>
        <TimeBar />
        <MachineChoice />
        <BarFilter />
        <GoTo />
        <Person />
        <Applied />
      </header>
      <main id="screen" tabIndex={-1}>
        <Away />
        <Outlet />
      </main>
    </div>
  );
}
