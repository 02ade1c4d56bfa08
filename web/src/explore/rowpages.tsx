import { Trans, useLingui } from "@lingui/react/macro";

import type { Row } from "../api/answers";
import type { Stream } from "../api/columns";
import { count } from "../parts/format";
import { Rows } from "../parts/rows";
import { useAddress } from "../parts/search";
import { Empty, Failed, Loading } from "../parts/states";
import { chosen } from "./columns";
import type { useRows } from "./explore.api";

interface Props {
  stream: Stream;
  pages: ReturnType<typeof useRows>;
  onOpen: (row: Row) => void;
}

export function RowPages({ stream, pages, onOpen }: Props) {
  const { t } = useLingui();
  const [search] = useAddress();
  if (pages.isPending) return <Loading height={420} />;
  if (pages.error && pages.rows.length === 0) return <Failed error={pages.error} again={() => void pages.refetch()} />;
  if (pages.rows.length === 0) {
    return (
      <Empty title={<Trans>No rows in this window</Trans>}>
        <Trans>A task with the probe {stream.probe} records them.</Trans>
      </Empty>
    );
  }
  const more = () => {
    if (pages.hasNextPage && !pages.isFetchingNextPage) void pages.fetchNextPage();
  };
  return (
    <>
      <Rows label={t`Rows of ${stream.name}`} rows={pages.rows} columns={chosen(stream, search)} more={more} onOpen={onOpen} />
      <p className="row soft">
        {pages.hasNextPage ? t`${count(pages.rows.length)} newest rows; more come as you scroll` : t`all ${count(pages.rows.length)} rows`}
        <button type="button" className="quiet" onClick={() => void pages.refetch()}>
          <Trans>Read again</Trans>
        </button>
      </p>
    </>
  );
}
