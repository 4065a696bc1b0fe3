import { useQuery, useQueryClient } from "@tanstack/preact-query";
import { useEffect, useRef } from "preact/hooks";
import { useLocation } from "wouter-preact";
import { launchProfile } from "../../../gen/web/worker-rules";
import { send } from "../../../shared/web/api/client";
import { CheckField, SelectField, TextField, useForm, type Form } from "../../../shared/web/forms/form";
import { Button, ButtonLink, CodeBlock, Notice, Segments, toast, useAddress } from "../../../shared/web/ui";
import { api, slowApi, type Schema } from "../api";
import { liveQuery } from "../live";
import { useVersions } from "../parts/bundles";
import { LaunchFailure, asRefusal } from "../parts/launch-failure";
import { LaunchIdentity } from "../parts/launch-identity";
import { LaunchOptions } from "../parts/launch-options";
import { curlOf, emptyLaunch, isUuid, requestOf, type LaunchRequest, type LaunchValues } from "../parts/launch-request";
import { texts } from "../texts/launch";
import { texts as shell } from "../texts/shell";
import "./launch.css";

/** The choice of the proxy has no empty value. */
const rule = { ...launchProfile, required: ["proxy"] };

/** The input of the last visit, so that a look at another page loses nothing. */
let draft: LaunchValues | undefined;

function check(values: LaunchValues): Record<string, string | undefined> {
  if (values.source !== "profile") return {};
  if (values.profileId.trim() === "") return { profileId: texts.profileIdNeeded };
  return {
    profileId: isUuid(values.profileId) ? undefined : texts.profileIdFormat,
  };
}

function useLaunchForm(profileId: string | undefined): Form<LaunchValues> {
  const queries = useQueryClient();
  const [, navigate] = useLocation();
  const form = useForm<LaunchValues>({
    rule,
    initial: profileId ? emptyLaunch(profileId) : (draft ?? emptyLaunch()),
    body: requestOf,
    check,
    onSubmit: async (body) => {
      const session = await launch(body as LaunchRequest);
      queries.setQueryData(["session", session.id], session);
      for (const key of ["sessions", "status", "live"]) void queries.invalidateQueries({ queryKey: [key] });
      toast(texts.launched);
      navigate(`/sessions/${session.id}`);
    },
  });
  const last = useRef(form.values);
  last.current = form.values;
  useEffect(
    () => () => {
      draft = last.current;
    },
    [],
  );
  return form;
}

async function launch(body: LaunchRequest): Promise<Schema<"BrowserSession">> {
  try {
    return await send(slowApi.POST("/sessions/profile", { body }));
  } catch (error) {
    throw asRefusal(error);
  }
}

/** The form that launches a browser. */
export default function Launch() {
  const { profileId } = useAddress<"profileId">()[0];
  return <LaunchPage key={profileId} profileId={profileId} />;
}

function LaunchPage({ profileId }: { profileId: string | undefined }) {
  const form = useLaunchForm(profileId);
  return (
    <>
      <div class="page-header">
        <div>
          <h1>{texts.title}</h1>
          <p>{texts.hint}</p>
        </div>
      </div>
      <div class="launch">
        <form class="stack" noValidate aria-label={texts.form} onSubmit={(event) => void form.submit(event)}>
          <Unavailable />
          <Source form={form} />
          {form.values.source === "spec" && <Identity form={form} />}
          <BrowserPanel form={form} />
          <LaunchOptions form={form} />
          <Footer form={form} />
        </form>
        <Preview values={form.values} />
      </div>
    </>
  );
}

function Unavailable() {
  const live = useQuery(liveQuery).data;
  if (!live || live.isAvailable) return null;
  return (
    <Notice
      tone="wait"
      title={texts.unavailable(shell.reasonName(live.reason).toLowerCase())}
      action={
        <ButtonLink to="/machine" size="small" icon="server">
          {texts.toMachine}
        </ButtonLink>
      }
    >
      {shell.reasonAdvice(live.reason)}
    </Notice>
  );
}

function Source({ form }: { form: Form<LaunchValues> }) {
  const { source } = form.values;
  return (
    <section class="panel stack">
      <h2>{texts.source}</h2>
      <div>
        <Segments
          label={texts.source}
          name="source"
          value={source}
          options={texts.sources}
          onChange={(value) => form.set("source", value)}
        />
      </div>
      <p class="faint">{texts.sourceHints[source]}</p>
      {source === "profile" && <ProfilePicker form={form} />}
      <TextField
        form={form}
        name="browser.startUrls"
        label={texts.startUrls}
        hint={texts.startUrlsHint}
        inputMode="url"
        placeholder="https://example.com/"
        autocomplete="off"
        spellcheck={false}
      />
      <CheckField form={form} name="browser.record" label={texts.record} hint={texts.recordHint} />
    </section>
  );
}

function Identity({ form }: { form: Form<LaunchValues> }) {
  return (
    <section class="panel stack">
      <h2>{texts.identity}</h2>
      <p class="faint">{texts.identityHint}</p>
      <LaunchIdentity form={form} />
    </section>
  );
}

/** Selects a profile of a recent session, or takes the id of another one. The worker cannot list the profiles. */
function ProfilePicker({ form }: { form: Form<LaunchValues> }) {
  const recent = useQuery({
    queryKey: ["sessions", "recent"],
    queryFn: () => send(api.GET("/sessions", { params: { query: { limit: 100 } } })),
  });
  const names = new Map(recent.data?.items.map((s) => [s.profileId, s.profileName]));
  const known = names.has(form.values.profileId);
  return (
    <>
      {names.size > 0 && (
        <label class="field">
          <span class="label">{texts.profile}</span>
          <select
            class="select"
            value={known ? form.values.profileId : ""}
            onChange={(event) => form.set("profileId", event.currentTarget.value)}
          >
            <option value="">{texts.otherProfile}</option>
            {[...names].map(([id, name]) => (
              <option key={id} value={id}>
                {texts.profileOption(name, id)}
              </option>
            ))}
          </select>
        </label>
      )}
      {!known && (
        <TextField
          form={form}
          name="profileId"
          label={texts.profileId}
          hint={texts.profileIdHint}
          class="input mono"
          autocomplete="off"
          spellcheck={false}
        />
      )}
    </>
  );
}

function BrowserPanel({ form }: { form: Form<LaunchValues> }) {
  return (
    <section class="panel stack">
      <h2>{texts.browser}</h2>
      <SelectField
        form={form}
        name="browser.engine"
        label={texts.engine}
        hint={texts.engineHint}
        empty={texts.engineDefault}
        options={texts.engines}
      />
      <CheckField form={form} name="browser.headless" label={texts.headless} hint={texts.headlessHint} />
      <NoWindow values={form.values} />
    </section>
  );
}

/** Says why the selected browser cannot run in a window. */
function NoWindow({ values: { spec, browser, source } }: { values: LaunchValues }) {
  const builds = useVersions().data?.builds ?? [];
  if (browser["headless"] !== false) return null;
  if (browser["engine"] === "headless-shell") return <Notice tone="wait">{texts.shellHasNoWindow}</Notice>;
  const version = source === "spec" ? spec["browserVersion"] : undefined;
  const found = builds.filter((b) => String(b.browserVersion) === version);
  if (found.length === 0 || found.some((b) => b.headful)) return null;
  return <Notice tone="wait">{texts.noHeadful(String(version))}</Notice>;
}

function Footer({ form }: { form: Form<LaunchValues> }) {
  return (
    <div class="launch-footer row">
      {form.failure ? (
        <div class="failure">
          <LaunchFailure error={form.failure} />
        </div>
      ) : null}
      <Button type="submit" kind="primary" icon="play" busy={form.busy}>
        {texts.submit}
      </Button>
      <Button kind="quiet" disabled={form.busy} onClick={() => form.reset(emptyLaunch())}>
        {texts.reset}
      </Button>
      <span class="faint" role="status">
        {form.busy && texts.launching}
      </span>
    </div>
  );
}

function Preview({ values }: { values: LaunchValues }) {
  return (
    <section class="stack tight preview">
      <h2>{texts.preview}</h2>
      <p class="faint small">{texts.previewHint}</p>
      <CodeBlock text={curlOf(requestOf(values))} label={texts.previewLabel} />
    </section>
  );
}
