import { useId } from "preact/hooks";
import { SearchField, pageOf, useDelayedText } from "../../../shared/web/ui";
import { texts } from "../texts/profiles";
import { useSuggestions } from "./profile-data";
import { osNames } from "./profile-options";

export type FilterKey = "search" | "os" | "version" | "tag" | "sort" | "order" | "page" | "rows";
type Address = Partial<Record<FilterKey, string>>;

const rowCounts = [20, 50, 100];
const sortFields = ["name", "browserVersion", "lastUsedAt", "updatedAt", "createdAt"] as const;

/** Returns the query of listProfiles for the address. Values that the API would refuse are left out. */
export function queryOf(address: Address) {
  const os = osNames.find(([value]) => value === address.os)?.[0] as "windows" | undefined;
  const rows = Number(address.rows);
  return {
    search: address.search?.slice(0, 128) || undefined,
    tag: address.tag?.slice(0, 64) || undefined,
    os,
    browserVersion: wholeNumber(address.version, 9_999),
    sortBy: sortFields.find((field) => field === address.sort) ?? "updatedAt",
    sortOrder: address.order === "asc" ? ("asc" as const) : ("desc" as const),
    page: pageOf(address.page),
    limit: rowCounts.includes(rows) ? rows : 20,
  };
}

function wholeNumber(text: string | undefined, max: number): number | undefined {
  const value = Number(text);
  return Number.isInteger(value) && value >= 1 && value <= max ? value : undefined;
}

/** Whether a filter hides profiles. */
export const isFiltered = (a: Address): boolean => Boolean(a.search || a.os || a.version || a.tag);

/** The search field and the filters of the list of profiles. */
export function ProfileFilters({
  address,
  change,
}: {
  address: Address;
  change: (changes: Address, replace?: boolean) => void;
}) {
  const { versions, tags } = useSuggestions();
  const query = queryOf(address);
  const chosen = query.browserVersion;
  const shown = chosen && !versions.includes(chosen) ? [chosen, ...versions] : versions;
  return (
    <div class="toolbar" role="search">
      <SearchField label={texts.search} value={address.search ?? ""} onSearch={(search) => change({ search }, true)} />
      <select
        class="select"
        aria-label={texts.filters.os}
        value={query.os ?? ""}
        onChange={(event) => change({ os: event.currentTarget.value })}
      >
        <option value="">{texts.filters.anyOs}</option>
        {osNames.map(([value, label]) => (
          <option key={value} value={value}>
            {label}
          </option>
        ))}
      </select>
      <select
        class="select"
        aria-label={texts.filters.version}
        value={chosen ? String(chosen) : ""}
        onChange={(event) => change({ version: event.currentTarget.value })}
      >
        <option value="">{texts.filters.anyVersion}</option>
        {shown.map((version) => (
          <option key={version} value={String(version)}>
            {version}
          </option>
        ))}
      </select>
      <TagFilter value={address.tag ?? ""} tags={tags} onTag={(tag) => change({ tag }, true)} />
      <select
        class="select"
        aria-label={texts.filters.rows}
        value={String(query.limit)}
        onChange={(event) => change({ rows: event.currentTarget.value })}
      >
        {rowCounts.map((n) => (
          <option key={n} value={String(n)}>
            {texts.filters.rowsOf(n)}
          </option>
        ))}
      </select>
    </div>
  );
}

/** A field for a tag with suggestions. It applies shortly after the last key. */
function TagFilter({ value, tags, onTag }: { value: string; tags: string[]; onTag: (tag: string) => void }) {
  const id = useId();
  const [text, setText] = useDelayedText(value, onTag);
  return (
    <>
      <input
        class="input"
        type="search"
        aria-label={texts.filters.tag}
        placeholder={texts.filters.tag}
        list={id}
        maxLength={64}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <datalist id={id}>
        {tags.map((tag) => (
          <option key={tag} value={tag} />
        ))}
      </datalist>
    </>
  );
}
