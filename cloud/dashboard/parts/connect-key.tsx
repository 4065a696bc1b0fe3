import { useState } from "preact/hooks";
import { Button, ButtonLink, Loaded, Notice } from "../../../shared/web/ui";
import type { Schema } from "../api";
import { useManages } from "../session";
import { texts } from "../texts/connect";
import { CreateKeyForm } from "./create-key";
import { CreatedKey } from "./created-key";
import { useAllKeys } from "./team";

/** The key of a new worker: created on this page with its full text, or one whose full text the user has. */
export interface WorkerKey {
  apiKey: Schema<"ApiKey">;
  created?: Schema<"CreatedApiKey">;
}

interface Props {
  chosen: WorkerKey | undefined;
  placeholder: string;
  onChoose: (key: WorkerKey | undefined) => void;
}

/** The first step: choose or create the key of the worker. */
export function ConnectKey(props: Props) {
  const manages = useManages();
  return (
    <section class="panel stack" aria-labelledby="connect-key">
      <h2 id="connect-key">{texts.keyStep}</h2>
      {manages ? <Manager {...props} /> : <Member {...props} />}
    </section>
  );
}

function Member({ placeholder }: Props) {
  return (
    <Notice
      title={texts.memberTitle}
      action={
        <ButtonLink to="/settings/members" size="small">
          {texts.seeMembers}
        </ButtonLink>
      }
    >
      {texts.memberHint(placeholder)}
    </Notice>
  );
}

function Manager({ chosen, placeholder, onChoose }: Props) {
  const keys = useAllKeys();
  const [fresh, setFresh] = useState(0);
  if (chosen?.created) {
    return (
      <>
        <Notice tone="good" title={texts.keyCreated}>
          {texts.keyOnce}
        </Notice>
        <CreatedKey created={chosen.created} />
        <div>
          <Button
            onClick={() => {
              setFresh(fresh + 1);
              onChoose(undefined);
            }}
          >
            {texts.anotherKey}
          </Button>
        </div>
      </>
    );
  }
  return (
    <Loaded query={keys} lines={2}>
      {(all) => (
        <>
          {all.length > 0 && <KeyChoice keys={all} chosen={chosen} onChoose={onChoose} />}
          {chosen ? (
            <p class="faint">{texts.existingKey(placeholder, chosen.apiKey.prefix, chosen.apiKey.lastFour)}</p>
          ) : (
            <CreateKeyForm
              key={fresh}
              name={all.length ? "" : texts.newKeyName}
              onCreated={(created) => onChoose({ apiKey: created.apiKey, created })}
            />
          )}
        </>
      )}
    </Loaded>
  );
}

function KeyChoice({ keys, chosen, onChoose }: Pick<Props, "chosen" | "onChoose"> & { keys: Schema<"ApiKey">[] }) {
  return (
    <label class="field connect-choice">
      <span class="label">{texts.keyChoice}</span>
      <select
        class="select"
        value={chosen?.apiKey.id ?? ""}
        onChange={(event) => {
          const found = keys.find((k) => k.id === event.currentTarget.value);
          onChoose(found && { apiKey: found });
        }}
      >
        <option value="">{texts.newKey}</option>
        {keys.map((k) => (
          <option key={k.id} value={k.id}>
            {texts.useKey(k.name, k.prefix, k.lastFour)}
          </option>
        ))}
      </select>
      <span class="hint">{texts.keyHint}</span>
    </label>
  );
}
