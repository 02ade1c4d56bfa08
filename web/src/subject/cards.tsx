import { Trans, useLingui } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";

import { FlamePicture } from "../flames/picture";
import { useAsked } from "../parts/asked";
import { Lines } from "../parts/lines";
import { Loading } from "../parts/states";
import { Top } from "../parts/top";
import { Slowest } from "./slowest";
import { type Card, chosen, type Stacks } from "./subject";

/** A card of a subject, of the stream that is recorded. */
export function Shows({ card, recorded }: { card: Card; recorded: ReadonlySet<string> }) {
  const { i18n } = useLingui();
  if (card.show === "own") return <card.part />;
  const title = i18n._(card.title);
  if (card.show === "slowest" || card.show === "flame") {
    const of = chosen(card.of, recorded);
    return of && (card.show === "flame" ? <Flame title={title} {...of} /> : <Slowest title={title} stream={of.stream} />);
  }
  const of = chosen(card.of, recorded);
  return of && (card.show === "top" ? <Top title={title} {...of} /> : <Lines title={title} stacked={card.stacked} {...of} />);
}

function Flame({ title, stream, where }: Stacks & { title: string }) {
  const { key, now, live, ready } = useAsked(stream, { card: title, own: where });
  return (
    <section className="card">
      <h2>
        {title}{" "}
        <Link to="/flames/$stream" params={{ stream }} search={(before) => ({ ...before, where: now().where })} className="soft">
          <Trans>alone</Trans>
        </Link>
      </h2>
      {ready ? <FlamePicture stream={{ name: stream }} query={now()} cacheKey={key} live={live} /> : <Loading height={420} />}
    </section>
  );
}
