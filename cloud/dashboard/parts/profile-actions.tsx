import { useQueryClient } from "@tanstack/preact-query";
import { useRef, useState } from "preact/hooks";
import { send } from "../../../shared/web/api/client";
import { FormFrame, TextField, useForm } from "../../../shared/web/forms/form";
import {
  Button,
  ButtonLink,
  ConfirmDialog,
  Dialog,
  ErrorNotice,
  Notice,
  download,
  toast,
} from "../../../shared/web/ui";
import { duplicateProfile as rule } from "../../../gen/web/cloud-rules";
import { api, type Schema } from "../api";
import { useManages } from "../session";
import { texts } from "../texts/profiles";
import { useIdempotencyKey } from "./once";
import { limitOf, readAllProfiles, type Profile } from "./profile-data";
import { exportFile } from "./profile-transfer";

const maxName = 128;

/** States that the plan allows no more profiles, and what the user can do. */
export function LimitNotice({ limit, ephemeral = 0 }: { limit: number; ephemeral?: number }) {
  const manages = useManages();
  return (
    <Notice
      tone="wait"
      title={texts.limit.title(limit)}
      action={
        manages && (
          <ButtonLink to="/billing" size="small">
            {texts.limit.action}
          </ButtonLink>
        )
      }
    >
      {manages ? texts.limit.hint : texts.limit.ask} {ephemeral > 0 && texts.limit.ephemeral(ephemeral)}
    </Notice>
  );
}

/** An error, or the notice of the limit if that is the error. */
export function ProfileError({ error }: { error: unknown }) {
  const limit = limitOf(error);
  return limit ? <LimitNotice limit={limit.limit} /> : <ErrorNotice error={error} />;
}

/** Asks for the name of a copy and creates it. */
export function DuplicateDialog({
  profile,
  onCreated,
  onClose,
}: {
  profile: Profile;
  onCreated: (created: Profile) => void;
  onClose: () => void;
}) {
  const queries = useQueryClient();
  const idempotency = useIdempotencyKey();
  const [refused, setRefused] = useState<unknown>();
  const name = texts.duplicate.copyOf([...profile.name].slice(0, maxName - 7).join(""));
  const form = useForm({
    rule: { ...rule, required: ["name"] },
    initial: { name },
    onSubmit: async (body) => {
      const request = body as Schema<"DuplicateProfileRequest">;
      setRefused(undefined);
      const params = {
        path: { profileId: profile.id },
        header: { "Idempotency-Key": idempotency(request) },
      };
      const created = await send(
        api.POST("/v1/profiles/{profileId}/duplicate", {
          params,
          body: request,
        }),
      ).catch((error: unknown) => {
        if (!limitOf(error)) throw error;
        setRefused(error);
        return undefined;
      });
      if (!created) return;
      void queries.invalidateQueries({ queryKey: ["profiles"] });
      toast(texts.duplicate.done(created.name));
      onClose();
      onCreated(created);
    },
  });
  return (
    <Dialog
      title={texts.duplicate.title}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{texts.cancel}</Button>
          <Button kind="primary" busy={form.busy} onClick={() => void form.submit()}>
            {texts.duplicate.action}
          </Button>
        </>
      }
    >
      <FormFrame form={form} label={texts.duplicate.title}>
        <p class="faint">{texts.duplicate.body}</p>
        <TextField form={form} name="name" label={texts.duplicate.name} autocomplete="off" maxLength={maxName} />
        {refused ? <ProfileError error={refused} /> : null}
      </FormFrame>
    </Dialog>
  );
}

/** Asks for the name of a profile, then deletes it. */
export function DeleteDialog({
  profile,
  onDeleted,
  onClose,
}: {
  profile: Profile;
  onDeleted: () => void;
  onClose: () => void;
}) {
  return (
    <ConfirmDialog
      title={texts.delete.title}
      action={texts.actions.delete}
      name={profile.name}
      onClose={onClose}
      onConfirm={async () => {
        await send(
          api.DELETE("/v1/profiles/{profileId}", {
            params: { path: { profileId: profile.id } },
          }),
        );
        toast(texts.delete.done(profile.name));
        onDeleted();
      }}
    >
      <div class="stack tight">
        <p>{texts.delete.body}</p>
        {profile.activeSessions > 0 && <Notice tone="wait">{texts.delete.active(profile.activeSessions)}</Notice>}
      </div>
    </ConfirmDialog>
  );
}

/** Downloads the settings of the profiles. */
export function exportProfiles(profiles: readonly Profile[], name: string): void {
  download(`${name}.json`, new Blob([exportFile(profiles)], { type: "application/json" }));
  toast(texts.exported(profiles.length));
}

/** A name for an export file of today. */
export const exportName = (): string => `profiles-${new Date().toISOString().slice(0, 10)}`;

/** Says what an export contains, reads all profiles and downloads them. */
export function ExportAllDialog({ onClose }: { onClose: () => void }) {
  const [progress, setProgress] = useState<[number, number]>();
  const [error, setError] = useState<unknown>();
  const closed = useRef(false);
  const close = () => {
    closed.current = true;
    onClose();
  };
  const run = async () => {
    setError(undefined);
    setProgress([0, 0]);
    try {
      const all = await readAllProfiles((read, total) => {
        setProgress([read, total]);
        return !closed.current;
      });
      if (closed.current) return;
      exportProfiles(all, exportName());
      close();
    } catch (failure) {
      setError(failure);
      setProgress(undefined);
    }
  };
  return (
    <Dialog
      title={texts.exportTitle}
      onClose={close}
      footer={
        <>
          <Button onClick={close}>{texts.cancel}</Button>
          <Button kind="primary" icon="download" busy={progress !== undefined} onClick={() => void run()}>
            {texts.exportAction}
          </Button>
        </>
      }
    >
      <p>{texts.exportHint}</p>
      {progress && progress[1] > 0 && <p role="status">{texts.exporting(...progress)}</p>}
      {error ? <ErrorNotice error={error} /> : null}
    </Dialog>
  );
}
