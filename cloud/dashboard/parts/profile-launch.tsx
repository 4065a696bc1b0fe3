import { Link } from "wouter-preact";
import { Button, CodeBlock, Dialog, ExternalButton, Loading, Notice, machineName } from "../../../shared/web/ui";
import { texts } from "../texts/profiles";
import { consolePage, useReachableMachines } from "./fleet";
import type { Profile } from "./profile-data";

/** The command that launches a profile with the worker at the URL. */
function launchCommand(profileId: string, workerUrl: string): string {
  return [
    `WORKER_URL=${workerUrl}`,
    "WORKER_KEY=your-worker-key",
    "",
    'curl -X POST "$WORKER_URL/sessions/profile" \\',
    '  -H "X-API-Key: $WORKER_KEY" \\',
    '  -H "Content-Type: application/json" \\',
    `  -d '{"profileId": "${profileId}",`,
    `       "browser": {"headless": true}}'`,
  ].join("\n");
}

/** How to launch a profile without the console. */
export function LaunchBox({ profileId }: { profileId: string }) {
  const { launch } = texts;
  const workerUrl = useReachableMachines()?.[0]?.publicUrl;
  return (
    <section class="panel stack tight" aria-labelledby="launch-heading">
      <h2 id="launch-heading">{launch.howTitle}</h2>
      <p class="faint small">{workerUrl ? launch.keyHint : launch.urlHint}</p>
      <CodeBlock text={launchCommand(profileId, workerUrl ?? launch.exampleUrl)} label={launch.code} />
      <p class="small">
        <Link href="/connect">{launch.connect}</Link>
      </p>
    </section>
  );
}

const listed = 8;

/** Leads to the launch form of a worker, with the profile chosen. */
export function LaunchDialog({ profile, onClose }: { profile: Profile; onClose: () => void }) {
  const { launch } = texts;
  const machines = useReachableMachines();
  return (
    <Dialog
      title={launch.title(profile.name)}
      onClose={onClose}
      footer={<Button onClick={onClose}>{texts.cancel}</Button>}
    >
      {!machines && <Loading lines={2} />}
      {machines?.length === 0 && (
        <Notice tone="wait" title={launch.noMachine}>
          <p>{launch.noMachineHint}</p>
          <p>
            <Link href="/machines">{launch.machines}</Link>
          </p>
        </Notice>
      )}
      {machines && machines.length > 0 && (
        <>
          <p>{launch.hint}</p>
          <div class="stack tight">
            {machines.slice(0, listed).map((m, i) => (
              <div key={m.machineId}>
                <ExternalButton
                  href={consolePage(m, `/launch?profileId=${profile.id}`) ?? ""}
                  kind={i === 0 ? "primary" : undefined}
                  icon="play"
                >
                  {launch.on(machineName(m), m.state === "draining")}
                </ExternalButton>
              </div>
            ))}
          </div>
          {machines.length > listed && <p class="faint">{launch.more(machines.length - listed)}</p>}
        </>
      )}
    </Dialog>
  );
}
