import { formatBytes } from "./format";

interface Totals {
  connections: number;
  bytesSent: number;
  bytesReceived: number;
  denied: number;
}

interface Host {
  host: string;
  bytesSent: number;
  bytesReceived: number;
  denied: { level: string; rule: string; count: number }[];
}

/** What was transferred and denied, for example "4.1 KiB sent, 89.7 KiB received, 2 requests denied". */
export function networkText({ bytesSent, bytesReceived, denied }: Omit<Totals, "connections">): string {
  const bytes = `${formatBytes(bytesSent)} sent, ${formatBytes(bytesReceived)} received`;
  return denied > 0 ? `${bytes}, ${denied} ${denied === 1 ? "request" : "requests"} denied` : bytes;
}

const shown = 20;

/** The traffic of a browser: its totals and its first hosts, with the rules that denied requests. */
export function NetworkTraffic({ totals, hosts }: { totals: Totals; hosts: Host[] }) {
  return (
    <>
      <p>{networkText(totals)}</p>
      {hosts.length > 0 && (
        <ul class="stack tight" aria-label="Hosts">
          {hosts.slice(0, shown).map((host) => (
            <li key={host.host}>
              <div class="truncate" title={host.host}>
                {host.host === "<other>" ? "Other hosts" : host.host}
              </div>
              <div class="faint small">
                {networkText({ ...host, denied: host.denied.reduce((sum, { count }) => sum + count, 0) })}
              </div>
              {host.denied.map(({ level, rule, count }) => (
                <div key={level + rule} class="small">
                  {rule === "<other>" ? "Other rules" : `${rule} (${level})`}: {count}
                </div>
              ))}
            </li>
          ))}
        </ul>
      )}
      {hosts.length > shown && <p class="faint small">{hosts.length - shown} more hosts have less traffic.</p>}
    </>
  );
}
