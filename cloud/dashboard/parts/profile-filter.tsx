import { keepPreviousData, useQuery } from "@tanstack/preact-query";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { send } from "../../../shared/web/api/client";
import { Button } from "../../../shared/web/ui";
import { api } from "../api";
import { texts } from "../texts/sessions";

/** Chooses a profile by its name. The list under the field has the profiles that match what is typed. */
export function ProfileFilter({
  profileId,
  onChange,
}: {
  profileId: string | undefined;
  onChange: (profileId: string) => void;
}) {
  const name = useProfileName(profileId);
  return (
    <div class="field session-filter">
      {profileId ? (
        <>
          <span class="label">{texts.profile}</span>
          <span class="profile-chosen">
            <span class="truncate" title={name}>
              {name ?? profileId}
            </span>
            <Button
              kind="quiet"
              size="small"
              icon="close"
              aria-label={texts.removeProfile}
              onClick={() => onChange("")}
            />
          </span>
        </>
      ) : (
        <ProfileSearch onChoose={onChange} />
      )}
    </div>
  );
}

/** The name of a profile; undefined while it loads, or if the profile was deleted. */
function useProfileName(profileId: string | undefined): string | undefined {
  const query = useQuery({
    queryKey: ["profiles", "name", profileId],
    queryFn: () =>
      send(
        api.GET("/v1/profiles/{profileId}", {
          params: { path: { profileId: profileId! } },
        }),
      ),
    enabled: profileId !== undefined,
    staleTime: 60_000,
  });
  return query.data?.name;
}

function useMatches(search: string, enabled: boolean) {
  const [settled, setSettled] = useState(search);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(search), 200);
    return () => clearTimeout(timer);
  }, [search]);
  return useQuery({
    queryKey: ["profiles", "choices", settled],
    queryFn: () =>
      send(
        api.GET("/v1/profiles", {
          params: {
            query: {
              limit: 8,
              sortBy: "name",
              sortOrder: "asc",
              search: settled || undefined,
            },
          },
        }),
      ),
    enabled,
    placeholderData: keepPreviousData,
  });
}

function ProfileSearch({ onChoose }: { onChoose: (id: string) => void }) {
  const id = useId();
  const root = useRef<HTMLDivElement>(null);
  const [text, setText] = useState("");
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(-1);
  const { data } = useMatches(text.trim(), open);
  const items = data?.items ?? [];
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      setOpen(true);
      setAt(Math.max(0, Math.min(items.length - 1, at + step)));
    } else if (event.key === "Enter" && items[at]) {
      event.preventDefault();
      onChoose(items[at].id);
    } else if (event.key === "Escape" && open) {
      event.preventDefault();
      setOpen(false);
    }
  };
  const more = (data?.pagination.total ?? 0) - items.length;
  return (
    <>
      <label for={id}>{texts.profile}</label>
      <div
        class="profile-combo"
        ref={root}
        onFocusOut={(event) => {
          if (!root.current?.contains(event.relatedTarget as Node | null)) setOpen(false);
        }}
      >
        <input
          id={id}
          class="input"
          role="combobox"
          aria-expanded={open}
          aria-controls={`${id}-list`}
          aria-autocomplete="list"
          aria-activedescendant={open && items[at] ? `${id}-${items[at].id}` : undefined}
          autocomplete="off"
          placeholder={texts.anyProfile}
          value={text}
          onFocus={() => setOpen(true)}
          onClick={() => setOpen(true)}
          onInput={(event) => {
            setText(event.currentTarget.value);
            setOpen(true);
            setAt(-1);
          }}
          onKeyDown={onKeyDown}
        />
        {open && data && (
          <div class="profile-combo-list">
            <ul id={`${id}-list`} role="listbox" aria-label={texts.profile}>
              {items.map((p, i) => (
                <li
                  key={p.id}
                  id={`${id}-${p.id}`}
                  role="option"
                  aria-selected={i === at}
                  class="truncate"
                  title={p.name}
                  onPointerDown={(event) => {
                    event.preventDefault();
                    onChoose(p.id);
                  }}
                >
                  {p.name}
                </li>
              ))}
            </ul>
            {items.length === 0 && (
              <p class="faint small" role="status">
                {texts.noProfile}
              </p>
            )}
            {more > 0 && <p class="faint small">{texts.moreProfiles(more)}</p>}
          </div>
        )}
      </div>
    </>
  );
}
