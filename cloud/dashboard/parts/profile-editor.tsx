import { useQueryClient } from "@tanstack/preact-query";
import { useEffect, useRef, useState } from "preact/hooks";
import { useLocation } from "wouter-preact";
import { ApiError } from "../../../shared/web/api/errors";
import { send } from "../../../shared/web/api/client";
import { useForm, useLeaveWarning } from "../../../shared/web/forms/form";
import { Button, Notice, toast } from "../../../shared/web/ui";
import { createProfile as rule } from "../../../gen/web/cloud-rules";
import { api, type Schema } from "../api";
import { useSession } from "../session";
import { texts } from "../texts/profiles";
import { useIdempotencyKey } from "./once";
import { ProfileError } from "./profile-actions";
import { ConflictDialog } from "./profile-conflict";
import { ifMatch, useSuggestions, type Profile } from "./profile-data";
import type { ProfileForm } from "./profile-fields";
import {
  BrowserSection,
  DeviceSection,
  IdentitySection,
  NetworkSection,
  NotesSection,
  PlaceSection,
  RulesSection,
  sectionList,
} from "./profile-sections";
import { createBody, equal, patchBody, profileValues, rebased, type ProfileValues } from "./profile-values";

interface Start {
  /** The stored profile that the values are based on; undefined for a new one. */
  base: Profile | undefined;
  values: ProfileValues;
  restored: boolean;
  count: number;
}

/** Unsaved values by organization and profile. They stay in memory when the user opens another page. */
const drafts = new Map<string, Pick<Start, "base" | "values">>();

/** Forgets the unsaved values of a profile, for example because it was deleted. */
export function forgetDraft(organizationId: string, profileId: string): void {
  drafts.delete(`${organizationId}/${profileId}`);
}

/** The form of a new or a stored profile. `latest` is the newest version that is known. */
export function ProfileEditor({ latest }: { latest?: Profile }) {
  const { organization } = useSession();
  const { versions } = useSuggestions();
  const draftKey = `${organization.id}/${latest?.id ?? "new"}`;
  const fresh = (): Pick<Start, "base" | "values"> => ({
    base: latest,
    values: profileValues(latest ?? { browserVersion: versions[0] }),
  });
  const [start, setStart] = useState<Start>(() => {
    const draft = drafts.get(draftKey);
    return { ...(draft ?? fresh()), restored: draft !== undefined, count: 0 };
  });
  const restart = (base: Profile | undefined) => {
    drafts.delete(draftKey);
    const next = base ? { base, values: profileValues(base) } : fresh();
    setStart((now) => ({ ...next, restored: false, count: now.count + 1 }));
  };
  return <Editor key={start.count} start={start} draftKey={draftKey} latest={latest} restart={restart} />;
}

interface EditorProps {
  start: Start;
  draftKey: string;
  latest: Profile | undefined;
  restart: (base: Profile | undefined) => void;
}

function Editor({ start, draftKey, latest, restart }: EditorProps) {
  const { versions, tags } = useSuggestions();
  const [conflict, setConflict] = useState(false);
  const [restored, setRestored] = useState(start.restored);
  const { form, base, changed, overwrite } = useProfileForm(start, draftKey, () => setConflict(true));
  const dirty = changed > 0;
  const stale = base !== undefined && latest !== undefined && latest.version > base.version;
  useEffect(() => {
    if (stale && !dirty && !form.busy) restart(latest);
  }, [stale, dirty, form.busy]);
  const discard = () => restart(base && latest && latest.version > base.version ? latest : base);
  return (
    <form
      class="stack profile-form"
      noValidate
      aria-label={texts.form.label}
      onSubmit={(event) => void form.submit(event)}
      onKeyDown={(event) => {
        if ((event.ctrlKey || event.metaKey) && event.key === "s") void form.submit(event);
      }}
    >
      <SectionNav />
      {restored && dirty && (
        <Notice
          title={texts.form.restored}
          action={
            <Button size="small" onClick={() => setRestored(false)}>
              {texts.close}
            </Button>
          }
        >
          {texts.form.restoredHint}
        </Notice>
      )}
      {stale && dirty && (
        <Notice
          tone="wait"
          title={texts.conflict.notice}
          action={
            <Button size="small" onClick={() => setConflict(true)}>
              {texts.conflict.show}
            </Button>
          }
        >
          {texts.conflict.noticeHint}
        </Notice>
      )}
      <IdentitySection form={form} versions={versions} />
      <DeviceSection form={form} />
      <PlaceSection form={form} />
      <NetworkSection form={form} stored={base?.proxy ?? null} />
      <RulesSection form={form} />
      <BrowserSection form={form} />
      <NotesSection form={form} tags={tags} />
      <SaveBar
        form={form}
        isNew={!base}
        changed={changed}
        running={(latest?.activeSessions ?? 0) > 0}
        onDiscard={discard}
      />
      {conflict && base && latest && (
        <ConflictDialog
          base={base}
          latest={latest}
          patch={patchBody(base, form.values)}
          busy={form.busy}
          onReload={() => restart(latest)}
          onOverwrite={() => {
            setConflict(false);
            overwrite(latest);
          }}
          onClose={() => setConflict(false)}
        />
      )}
    </form>
  );
}

function SectionNav() {
  const show = (id: string) => {
    const section = document.getElementById(id);
    section?.scrollIntoView({ behavior: "smooth" });
    section?.focus({ preventScroll: true });
  };
  return (
    <nav class="section-nav row" aria-label={texts.form.nav}>
      {sectionList.map(({ id, title }) => (
        <Button key={id} kind="quiet" size="small" onClick={() => show(id)}>
          {title}
        </Button>
      ))}
    </nav>
  );
}

function SaveBar({
  form,
  isNew,
  changed,
  running,
  onDiscard,
}: {
  form: ProfileForm;
  isNew: boolean;
  changed: number;
  running: boolean;
  onDiscard: () => void;
}) {
  const dirty = changed > 0;
  const state = isNew ? texts.form.unsavedNew : dirty ? texts.form.unsaved(changed) : texts.form.saved;
  return (
    <div class="save-bar stack tight">
      {form.failure ? <ProfileError error={form.failure} /> : null}
      <div class="row apart">
        <span class="faint" role="status">
          {state}. {running && dirty && texts.form.running}
        </span>
        <div class="row">
          {dirty && (
            <Button kind="quiet" disabled={form.busy} onClick={onDiscard}>
              {texts.form.discard}
            </Button>
          )}
          <Button type="submit" kind="primary" busy={form.busy} disabled={!isNew && !dirty}>
            {isNew ? texts.form.create : texts.form.save}
          </Button>
        </div>
      </div>
    </div>
  );
}

/** The state of the form, and how it is saved. */
function useProfileForm(start: Start, draftKey: string, onConflict: () => void) {
  const queries = useQueryClient();
  const [base, setBase] = useState(start.base);
  const over = useRef<Profile>();
  const now = useRef(start.values);
  const closed = useRef(false);
  const create = useCreate(() => {
    closed.current = true;
    drafts.delete(draftKey);
  });

  const update = async (stored: Profile, values: ProfileValues) => {
    const target = over.current ?? stored;
    over.current = undefined;
    const patch = rebased(patchBody(stored, values), target, values);
    if (Object.keys(patch).length === 0) return;
    const params = { path: { profileId: stored.id }, header: ifMatch(target) };
    const body = patch as Schema<"UpdateProfileRequest">;
    let updated: Profile;
    try {
      updated = await send(api.PATCH("/v1/profiles/{profileId}", { params, body }));
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 409) throw error;
      const newest = await send(api.GET("/v1/profiles/{profileId}", { params: { path: params.path } }));
      queries.setQueryData(["profiles", "item", stored.id], newest);
      if (newest.version === target.version) throw error;
      onConflict();
      return;
    }
    setBase(updated);
    queries.setQueryData(["profiles", "item", stored.id], updated);
    void queries.invalidateQueries({ queryKey: ["profiles"] });
    toast(texts.form.savedToast);
    // After the form has taken the saved values as clean. What was typed meanwhile stays.
    setTimeout(() => {
      if (equal(now.current, values)) form.reset(profileValues(updated));
      else {
        if (now.current.proxy.password === values.proxy.password) form.set("proxy.password", "");
        if (equal(now.current.clientCertificates, values.clientCertificates))
          form.set("clientCertificates", updated.clientCertificates);
      }
    });
  };
  const form = useForm<ProfileValues>({
    rule,
    initial: start.values,
    body: createBody,
    // The draft warns, also one that was restored.
    warns: false,
    check: ({ viewport: v, screen: s }) => ({
      viewport:
        (v.width ?? 0) > (s.width ?? Infinity) || (v.height ?? 0) > (s.height ?? Infinity)
          ? texts.checks.viewport
          : undefined,
    }),
    onSubmit: (body, values) => (base ? update(base, values) : create(body)),
  });
  now.current = form.values;
  const initial = useRef(createBody(start.values));
  const changed = base
    ? Object.keys(patchBody(base, form.values)).length
    : changedFields(initial.current, createBody(form.values));
  useDraft(draftKey, { base, values: form.values }, changed > 0 && !closed.current);
  return {
    form: {
      ...form,
      requires: (field: string) => isRequired(form.values, field),
    },
    base,
    changed,
    overwrite: (target: Profile) => {
      over.current = target;
      void form.submit();
    },
  };
}

/** Returns a function that creates the profile and opens it. */
function useCreate(onCreated: () => void) {
  const queries = useQueryClient();
  const [, navigate] = useLocation();
  const idempotency = useIdempotencyKey();
  return async (values: Record<string, unknown>) => {
    const body = values as Schema<"CreateProfileRequest">;
    const params = { header: { "Idempotency-Key": idempotency(body) } };
    const created = await send(api.POST("/v1/profiles", { params, body }));
    onCreated();
    queries.setQueryData(["profiles", "item", created.id], created);
    void queries.invalidateQueries({ queryKey: ["profiles"] });
    toast(texts.form.createdToast(created.name));
    navigate(`/profiles/${created.id}`, { replace: true });
  };
}

/** Keeps unsaved values for when the user comes back, and asks before the tab is closed. */
function useDraft(key: string, draft: Pick<Start, "base" | "values">, dirty: boolean): void {
  useEffect(() => {
    if (dirty) drafts.set(key, draft);
    else drafts.delete(key);
  });
  useLeaveWarning(dirty);
}

function changedFields(before: object, after: object): number {
  const a = before as Record<string, unknown>;
  const b = after as Record<string, unknown>;
  return [...new Set([...Object.keys(a), ...Object.keys(b)])].filter((key) => !equal(a[key], b[key])).length;
}

/** Parts of an optional group, for example of the proxy, are required once the group has a value. */
function isRequired(values: ProfileValues, field: string): boolean {
  if (field === "name" || field === "browserVersion") return true;
  const [group = "", part] = field.split(".");
  if (part === undefined || !/^(server|width|height|latitude|longitude)$/.test(part)) return false;
  return createBody(values)[group as "proxy"] !== undefined;
}
