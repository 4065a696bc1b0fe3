import { useQuery } from "@tanstack/preact-query";
import { send } from "../../../shared/web/api/client";
import { detailInterval, poll } from "../../../shared/web/api/query";
import { Loaded, NetworkTraffic } from "../../../shared/web/ui";
import { api, type Schema } from "../api";
import { texts } from "../texts/sessions";
import { Section } from "./drawer-section";

/** What the browser of a session has transferred and was denied, by host. */
export function SessionNetwork({ session }: { session: Schema<"BrowserSession"> }) {
  const network = useQuery({
    queryKey: ["session-network", session.id, session.status],
    queryFn: () => send(api.GET("/sessions/{sessionId}/network", { params: { path: { sessionId: session.id } } })),
    refetchInterval: (query) => (session.status === "running" ? poll(detailInterval)(query) : false),
  });
  return (
    <Section title={texts.drawer.network}>
      <Loaded query={network} lines={2}>
        {({ totals, items }) => <NetworkTraffic totals={totals} hosts={items} />}
      </Loaded>
    </Section>
  );
}
