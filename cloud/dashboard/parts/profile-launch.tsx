import { Link } from "wouter-preact";
import { CodeBlock } from "../../../shared/web/ui";
import { texts } from "../texts/profiles";

/** The command that launches a profile with a worker. */
function launchCommand(profileId: string): string {
  return [
    "WORKER_URL=http://localhost:3000",
    "WORKER_KEY=your-worker-key",
    "",
    'curl -X POST "$WORKER_URL/sessions/profile" \\',
    '  -H "X-API-Key: $WORKER_KEY" \\',
    '  -H "Content-Type: application/json" \\',
    `  -d '{"profileId": "${profileId}",`,
    `       "browser": {"headless": true}}'`,
  ].join("\n");
}

/** How to launch a profile. */
export function LaunchBox({ profileId }: { profileId: string }) {
  return (
    <section class="panel stack tight" aria-labelledby="launch-heading">
      <h2 id="launch-heading">{texts.launch.title}</h2>
      <p class="faint small">{texts.launch.hint}</p>
      <CodeBlock text={launchCommand(profileId)} label={texts.launch.code} />
      <p class="small">
        <Link href="/connect">{texts.launch.connect}</Link>
      </p>
    </section>
  );
}
