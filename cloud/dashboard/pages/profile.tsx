import { useQuery, useQueryClient } from "@tanstack/preact-query";
import { useState } from "preact/hooks";
import { Link, useLocation, useParams } from "wouter-preact";
import { send } from "../../../shared/web/api/client";
import { liveInterval, poll } from "../../../shared/web/api/query";
import { Badge, Button, CopyButton, Loaded, Loading, Time } from "../../../shared/web/ui";
import { api } from "../api";
import { DeleteDialog, DuplicateDialog, LimitNotice, exportProfiles } from "../parts/profile-actions";
import { remainingProfiles, useProfileStats, useSuggestions, type Profile } from "../parts/profile-data";
import { ProfileEditor, forgetDraft } from "../parts/profile-editor";
import { LaunchBox, LaunchDialog } from "../parts/profile-launch";
import { ProfileVersions } from "../parts/profile-versions";
import { useSession } from "../session";
import { texts } from "../texts/profiles";
import "./profile.css";
import "./profiles.css";

/** A new profile, or a stored one. */
export default function ProfilePage() {
  const { id } = useParams<{ id?: string }>();
  return id ? <StoredProfile key={id} id={id} /> : <NewProfile key="new" />;
}

function NewProfile() {
  const { ready } = useSuggestions();
  const stats = useProfileStats();
  return (
    <div class="profile-new">
      <header class="page-header">
        <div>
          <BackLink />
          <h1>{texts.form.newTitle}</h1>
          <p>{texts.form.newLead}</p>
        </div>
      </header>
      {remainingProfiles(stats.data) === 0 && (
        <div class="above">
          <LimitNotice limit={stats.data?.profileLimit ?? 0} ephemeral={stats.data?.ephemeralProfiles} />
        </div>
      )}
      {/* The first value of the browser version comes from the catalog. */}
      {ready ? <ProfileEditor /> : <Loading lines={8} />}
    </div>
  );
}

function StoredProfile({ id }: { id: string }) {
  const [dialog, setDialog] = useState<Open>();
  const profile = useQuery({
    queryKey: ["profiles", "item", id],
    queryFn: () =>
      send(
        api.GET("/v1/profiles/{profileId}", {
          params: { path: { profileId: id } },
        }),
      ),
    refetchInterval: poll(liveInterval),
  });
  return (
    <>
      <header class="page-header">
        <div>
          <BackLink />
          <h1 class="profile-title">{profile.data?.name ?? texts.form.label}</h1>
        </div>
        {profile.data && <Actions profile={profile.data} open={setDialog} />}
      </header>
      <Loaded query={profile} lines={10}>
        {(data) => (
          <div class="stack">
            <div class="profile-page">
              <ProfileEditor latest={data} />
              <aside class="stack" aria-label={texts.header.facts}>
                <Facts profile={data} />
                <LaunchBox profileId={data.id} />
              </aside>
            </div>
            {data.persist && <ProfileVersions profileId={data.id} />}
          </div>
        )}
      </Loaded>
      {dialog && profile.data && (
        <OpenDialog dialog={dialog} profile={profile.data} onClose={() => setDialog(undefined)} />
      )}
    </>
  );
}

const BackLink = () => (
  <Link href="/profiles" class="small">
    {texts.form.back}
  </Link>
);

type Open = "launch" | "duplicate" | "delete";

function Actions({ profile, open }: { profile: Profile; open: (dialog: Open) => void }) {
  return (
    <div class="row">
      <Button icon="play" kind="primary" onClick={() => open("launch")}>
        {texts.actions.launch}
      </Button>
      <Button icon="copy" onClick={() => open("duplicate")}>
        {texts.actions.duplicate}
      </Button>
      <Button icon="download" onClick={() => exportProfiles([profile], `profile-${profile.id}`)}>
        {texts.actions.export}
      </Button>
      <Button icon="trash" kind="danger" onClick={() => open("delete")}>
        {texts.actions.delete}
      </Button>
    </div>
  );
}

function OpenDialog({ dialog, profile, onClose }: { dialog: Open; profile: Profile; onClose: () => void }) {
  const queries = useQueryClient();
  const { organization } = useSession();
  const [, navigate] = useLocation();
  const deleted = () => {
    navigate("/profiles", { replace: true });
    forgetDraft(organization.id, profile.id);
    queries.removeQueries({ queryKey: ["profiles", "item", profile.id] });
    void queries.invalidateQueries({ queryKey: ["profiles"] });
  };
  if (dialog === "launch") return <LaunchDialog profile={profile} onClose={onClose} />;
  return dialog === "delete" ? (
    <DeleteDialog profile={profile} onDeleted={deleted} onClose={onClose} />
  ) : (
    <DuplicateDialog profile={profile} onCreated={(created) => navigate(`/profiles/${created.id}`)} onClose={onClose} />
  );
}

function Facts({ profile }: { profile: Profile }) {
  const { header } = texts;
  return (
    <section class="panel stack tight" aria-labelledby="facts-heading">
      <h2 id="facts-heading">{header.facts}</h2>
      <dl class="facts">
        <dt>{header.sessions}</dt>
        <dd>
          <Link href={`/sessions?profileId=${profile.id}`}>
            {profile.activeSessions > 0 ? (
              <Badge tone="good" dot>
                {texts.running(profile.activeSessions)}
              </Badge>
            ) : (
              header.noSessions
            )}
          </Link>
        </dd>
        <dt>{header.lastUsed}</dt>
        <dd>
          <Time at={profile.lastUsedAt} never={texts.never} />
        </dd>
        <dt>{header.updated}</dt>
        <dd>
          <Time at={profile.updatedAt} />
        </dd>
        <dt>{header.created}</dt>
        <dd>
          <Time at={profile.createdAt} />
        </dd>
        <dt>{header.version}</dt>
        <dd class="numeric">{profile.version}</dd>
        <dt>{header.id}</dt>
        <dd class="row">
          <code class="grow">{profile.id}</code>
          <CopyButton text={profile.id} label={header.copyId} />
        </dd>
      </dl>
    </section>
  );
}
