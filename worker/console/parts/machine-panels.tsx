import type { ComponentChildren } from "preact";
import { Badge, CopyButton, Time, type Tone, formatBytes } from "../../../shared/web/ui";
import type { Schema } from "../api";
import { texts } from "../texts/machine";
import { texts as sessions } from "../texts/sessions";

function Panel({ title, badge, children }: { title: string; badge?: ComponentChildren; children: ComponentChildren }) {
  return (
    <section class="panel">
      <header>
        <h2>{title}</h2>
        {badge}
      </header>
      {children}
    </section>
  );
}

type Fact = [name: string, value: ComponentChildren];

function Facts({ facts }: { facts: Fact[] }) {
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </>
      ))}
    </dl>
  );
}

/** The installed browsers and their modes. */
export function Browsers({ browsers }: { browsers: Schema<"BrowserBuild">[] }) {
  return (
    <Panel title={texts.browsers}>
      {browsers.length === 0 ? (
        <p class="faint">{texts.noBrowsers}</p>
      ) : (
        <ul class="isolation">
          {browsers.map((b) => (
            <li key={b.fullVersion} class="browser">
              <span class="strong numeric">{b.browserVersion}</span>
              <span class="row">
                <code>{b.fullVersion}</code>
                <Badge>{texts.headless}</Badge>
                {b.headful && <Badge>{texts.windowed}</Badge>}
                {b.devtools && <Badge>{texts.devtools}</Badge>}
              </span>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

function warmFacts(pool: Schema<"FleetWarmPool">): Fact[] {
  const t = texts.warm;
  return [
    ...pool.ready.map((w): Fact => [
      texts.warmReady,
      `${w.count} × ${texts.warmKind(w.browserVersion, w.headless, w.locale)}`,
    ]),
    [t.starting, pool.starting],
    [t.target, texts.warmTarget(pool.target, pool.targetReason)],
    [t.memory, formatBytes(pool.memoryBytes)],
    [t.launches, pool.warmLaunches],
    [t.cold, pool.coldLaunches.map((c) => `${c.reason}: ${c.count}`).join(", ") || t.noCold],
    [t.died, pool.died],
    [t.stale, pool.stale],
  ];
}

/** The browsers that wait for a launch. */
export function WarmPool({ pool }: { pool: Schema<"FleetWarmPool"> }) {
  const ready = pool.ready.reduce((sum, w) => sum + w.count, 0);
  return (
    <Panel
      title={texts.warmPool}
      badge={
        <span class="faint numeric">
          {ready} {texts.warmHint(pool.target)}
        </span>
      }
    >
      {pool.size === 0 && <p class="faint">{texts.warmOff}</p>}
      <Facts facts={warmFacts(pool)} />
    </Panel>
  );
}

const licenseTones: Record<Schema<"LicenseState">, Tone> = {
  ok: "good",
  unreachable: "wait",
  key_refused: "bad",
  no_key: "bad",
  incompatible: "bad",
};

/** The license and the connection to the cloud. */
export function Cloud({ license }: { license: Schema<"FleetLicense"> }) {
  return (
    <Panel
      title={texts.cloud}
      badge={
        <Badge tone={licenseTones[license.state]} dot>
          {texts.licenseState(license.state)}
        </Badge>
      }
    >
      <Facts
        facts={[
          [texts.lastAnswer, <Time at={license.lastAnswerAt} />],
          [texts.contract, texts.contractOf(license.cloudContract)],
          [texts.waiting, license.reportsWaiting],
          [texts.rejected, <span class={license.reportsRejected > 0 ? "bad" : ""}>{license.reportsRejected}</span>],
        ]}
      />
    </Panel>
  );
}

/** The worker program and its host. */
export function Worker({ status }: { status: Schema<"FleetStatus"> }) {
  const { facts } = texts;
  const { host } = status;
  return (
    <Panel title={texts.worker}>
      <Facts
        facts={[
          [facts.host, host.hostname],
          [facts.workerId, status.workerId ?? facts.notSet],
          [
            facts.machineId,
            <span class="row copied">
              <code>{status.machineId}</code>
              <CopyButton text={status.machineId} label={sessions.drawer.copy(facts.machineId)} />
            </span>,
          ],
          [facts.version, status.version],
          [facts.contract, status.contractVersion],
          [
            facts.publicUrl,
            <span class="row copied">
              <code>{status.publicUrl}</code>
              <CopyButton text={status.publicUrl} label={sessions.drawer.copy(facts.publicUrl)} />
            </span>,
          ],
          [facts.started, <Time at={status.startedAt} />],
          [facts.system, `${host.os} ${host.arch}, ${host.kernel}`],
          [facts.hardware, texts.hardwareOf(host.cpus, formatBytes(host.memoryBytes))],
        ]}
      />
    </Panel>
  );
}

/** The isolation mechanisms and why some are off. */
export function Isolation({ pieces }: { pieces: Schema<"IsolationPiece">[] }) {
  return (
    <Panel title={texts.isolation}>
      <ul class="isolation">
        {pieces.map((piece) => (
          <li key={piece.name}>
            <span>
              <Badge tone={piece.enabled ? "good" : "wait"}>{piece.enabled ? texts.on : texts.off}</Badge>
            </span>
            <span>
              {texts.isolationOf(piece.name)}
              {piece.reason && <span class="faint small"> – {piece.reason}</span>}
            </span>
          </li>
        ))}
      </ul>
    </Panel>
  );
}
