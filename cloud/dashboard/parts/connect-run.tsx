import { CodeBlock, Notice, useAddress } from "../../../shared/web/ui";
import type { Schema } from "../api";
import { texts } from "../texts/connect";
import { PanelTabs } from "./panel-tabs";

type Way = keyof typeof texts.tabs;

type Guide = Schema<"ConnectGuide">;

/** The second step: the commands, with the key in place of the placeholders. */
export function ConnectRun({ guide, created }: { guide: Guide; created: Schema<"CreatedApiKey"> | undefined }) {
  const [{ how }, change] = useAddress<"how">();
  const contents: Record<Way, string | null> = {
    docker: guide.dockerCommand,
    compose: guide.composeFile,
    kubernetes: guide.kubernetesManifest,
    binary: guide.binaryCommand,
    source: guide.sourceCommand,
  };
  const ways = (Object.keys(contents) as Way[]).filter((w) => contents[w]);
  const selected = ways.find((w) => w === how) ?? ways[0];
  return (
    <section class="panel stack" aria-labelledby="connect-run">
      <h2 id="connect-run">{texts.runStep}</h2>
      {!guide.image && <Notice title={texts.noImageTitle}>{texts.noImage}</Notice>}
      {selected && (
        <PanelTabs
          label={texts.how}
          tabs={ways.map((id) => ({ id, label: texts.tabs[id] }))}
          selected={selected}
          onSelect={(id) => change({ how: id }, true)}
        >
          <p class="faint">{texts.hints[selected]}</p>
          <div class={isFile(selected) ? "connect-file" : undefined}>
            <CodeBlock text={withKey(contents[selected] ?? "", guide, created)} label={texts.code[selected]} />
          </div>
          <p class="small faint">{created ? texts.withKey : texts.withoutKey(guide.keyPlaceholder)}</p>
        </PanelTabs>
      )}
    </section>
  );
}

/** Lines of a file are not wrapped: their indentation has a meaning. */
const isFile = (way: Way): boolean => way === "compose" || way === "kubernetes";

function withKey(text: string, guide: Guide, created: Schema<"CreatedApiKey"> | undefined): string {
  if (!created) return text;
  return text.replaceAll(guide.keyLowerPlaceholder, created.keyLower).replaceAll(guide.keyPlaceholder, created.key);
}
