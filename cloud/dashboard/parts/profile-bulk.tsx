import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../../../shared/web/api/errors";
import { send } from "../../../shared/web/api/client";
import { FormFrame, TextField, useForm } from "../../../shared/web/forms/form";
import { Button, ConfirmDialog, Dialog, Notice } from "../../../shared/web/ui";
import { updateProfile } from "../../../gen/web/cloud-rules";
import { api } from "../api";
import { profilesCount, texts } from "../texts/profiles";
import { ifMatch, limitOf, type Profile } from "./profile-data";
import { runAll, type Outcome } from "./profile-run";

const namesShown = 10;

/** Asks before several profiles are deleted, with their names. */
export function BulkDeleteDialog({
  profiles,
  onConfirm,
  onClose,
}: {
  profiles: readonly Profile[];
  onConfirm: () => void;
  onClose: () => void;
}) {
  const active = profiles.filter((p) => p.activeSessions > 0).length;
  return (
    <ConfirmDialog
      title={texts.delete.titleMany(profiles.length)}
      action={texts.delete.titleMany(profiles.length)}
      name={profilesCount(profiles.length)}
      onClose={onClose}
      onConfirm={async () => onConfirm()}
    >
      <div class="stack tight">
        <p>{texts.delete.bodyMany}</p>
        <ul class="name-list">
          {profiles.slice(0, namesShown).map((p) => (
            <li key={p.id}>{p.name}</li>
          ))}
          {profiles.length > namesShown && <li class="faint">{texts.delete.andMore(profiles.length - namesShown)}</li>}
        </ul>
        {active > 0 && <Notice tone="wait">{texts.delete.activeMany(active)}</Notice>}
      </div>
    </ConfirmDialog>
  );
}

/** Asks for the tag that several profiles get. */
export function BulkTagDialog({
  count,
  tags,
  onConfirm,
  onClose,
}: {
  count: number;
  tags: readonly string[];
  onConfirm: (tag: string) => void;
  onClose: () => void;
}) {
  const form = useForm({
    rule: {
      type: "object",
      required: ["tag"],
      properties: { tag: updateProfile.properties.tags.items },
    },
    initial: { tag: "" },
    body: ({ tag }) => ({ tag: tag.trim() }),
    onSubmit: async (body) => onConfirm(String(body["tag"])),
  });
  return (
    <Dialog
      title={texts.tag.title(count)}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{texts.cancel}</Button>
          <Button kind="primary" onClick={() => void form.submit()}>
            {texts.tag.action}
          </Button>
        </>
      }
    >
      <FormFrame form={form} label={texts.tag.title(count)}>
        <TextField form={form} name="tag" label={texts.tag.label} list="bulk-tags" autocomplete="off" />
        <datalist id="bulk-tags">
          {tags.map((tag) => (
            <option key={tag} value={tag} />
          ))}
        </datalist>
      </FormFrame>
    </Dialog>
  );
}

/** Deletes a profile. It is not an error if it was deleted already. */
export async function deleteOne(profile: Profile): Promise<void> {
  try {
    await send(
      api.DELETE("/v1/profiles/{profileId}", {
        params: { path: { profileId: profile.id } },
      }),
    );
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error;
  }
}

/** Adds a tag to a profile. It is read first, so that tags from elsewhere are kept. */
export async function tagOne(profile: Profile, tag: string): Promise<void> {
  const path = { profileId: profile.id };
  const now = await send(api.GET("/v1/profiles/{profileId}", { params: { path } }));
  if (now.tags.includes(tag)) return;
  const params = { path, header: ifMatch(now) };
  await send(
    api.PATCH("/v1/profiles/{profileId}", {
      params,
      body: { tags: [...now.tags, tag] },
    }),
  );
}

/** Runs an action for several profiles at once, with progress, a stop button and what failed. */
export function RunDialog({
  title,
  profiles,
  action,
  onEnd,
  onClose,
}: {
  title: string;
  profiles: readonly Profile[];
  action: (profile: Profile) => Promise<unknown>;
  onEnd: () => void;
  onClose: () => void;
}) {
  const [outcomes, setOutcomes] = useState<Outcome<Profile>[]>([]);
  const [over, setOver] = useState(false);
  const [stopping, setStopping] = useState(false);
  const stop = useRef(false);
  useEffect(() => {
    void runAll(profiles, action, {
      onProgress: setOutcomes,
      stopped: () => stop.current,
    }).then((all) => {
      setOutcomes(all);
      setOver(true);
      onEnd();
    });
    return () => void (stop.current = true);
  }, []);
  const failed = outcomes.filter((o) => o.state === "failed");
  const by = (state: Outcome<Profile>["state"]) => outcomes.filter((o) => o.state === state).length;
  const halt = () => {
    stop.current = true;
    setStopping(true);
  };
  return (
    <Dialog
      title={title}
      closable={over}
      onClose={onClose}
      footer={
        over ? (
          <Button kind="primary" onClick={onClose}>
            {texts.run.close}
          </Button>
        ) : (
          <Button busy={stopping} onClick={halt}>
            {stopping ? texts.run.stopping : texts.run.stop}
          </Button>
        )
      }
    >
      {!over && <progress class="run-progress" aria-label={title} value={outcomes.length} max={profiles.length} />}
      <p role="status">
        {over
          ? [
              texts.run.done(by("done")),
              failed.length > 0 && texts.run.failed(failed.length),
              by("skipped") > 0 && texts.run.skipped(by("skipped")),
            ]
              .filter(Boolean)
              .join(" ")
          : texts.run.progress(outcomes.length, profiles.length)}
      </p>
      {failed.length > 0 && (
        <table class="table" aria-label={texts.run.failures}>
          <thead>
            <tr>
              <th scope="col">{texts.run.profile}</th>
              <th scope="col">{texts.run.reason}</th>
            </tr>
          </thead>
          <tbody>
            {failed.map(({ item, error }) => (
              <tr key={item.id}>
                <td>{item.name}</td>
                <td>{messageOf(error)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Dialog>
  );
}

/** The message of a failed request with its details. */
export function messageOf(error: unknown): string {
  if (!(error instanceof ApiError)) return texts.run.unknown;
  if (limitOf(error)) return error.message;
  const details = error.details.filter((d) => d.message && d.message !== error.message);
  return [error.message, ...details.map((d) => `${d.field}: ${d.message}`)].join(" ");
}
