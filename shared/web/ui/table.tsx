import type { ComponentChildren } from "preact";
import { Button } from "./button";
import { Icon } from "./icon";

export interface Column<T> {
  /** Also the sort field, if `sortable`. */
  id: string;
  title: string;
  cell: (item: T) => ComponentChildren;
  sortable?: boolean;
  /** `end` aligns numbers to the right, `fit` takes no more width than needed, `title` and `corner` are places of a card on a phone. */
  look?: string;
}

export interface Sort {
  by: string;
  order: "asc" | "desc";
}

interface TableProps<T> {
  label: string;
  columns: Column<T>[];
  items: T[];
  keyOf: (item: T) => string;
  sort?: Sort;
  onSort?: (sort: Sort) => void;
  /** Opens an item. One cell must also contain a link or button for it, for the keyboard. */
  onOpen?: (item: T) => void;
  openKey?: string;
  /** The keys of the selected items; with `onSelect`, the table has checkboxes. */
  selected?: ReadonlySet<string>;
  onSelect?: (selected: Set<string>) => void;
  nameOf?: (item: T) => string;
}

/** A table that becomes a list of cards on a phone. */
export function Table<T>({
  label,
  columns,
  items,
  keyOf,
  sort,
  onSort,
  onOpen,
  openKey,
  selected,
  onSelect,
  nameOf,
}: TableProps<T>) {
  const toggle = (key: string) => {
    const next = new Set(selected);
    if (!next.delete(key)) next.add(key);
    onSelect?.(next);
  };
  const all = items.length > 0 && items.every((item) => selected?.has(keyOf(item)));
  return (
    <div class="table-wrap">
      <table class="table cards" aria-label={label}>
        <thead>
          <tr>
            {onSelect && (
              <th class="fit" scope="col">
                <input
                  type="checkbox"
                  aria-label="Select all on this page"
                  checked={all}
                  onChange={() => onSelect(all ? new Set() : new Set(items.map(keyOf)))}
                />
              </th>
            )}
            {columns.map((column) => (
              <th
                key={column.id}
                scope="col"
                class={column.look}
                aria-sort={sort?.by === column.id ? (sort.order === "asc" ? "ascending" : "descending") : undefined}
              >
                {column.sortable && onSort ? (
                  <button
                    type="button"
                    class="sort"
                    onClick={() =>
                      onSort({ by: column.id, order: sort?.by === column.id && sort.order === "desc" ? "asc" : "desc" })
                    }
                  >
                    {column.title}
                    {sort?.by === column.id && <Icon name={sort.order === "asc" ? "up" : "down"} />}
                  </button>
                ) : (
                  column.title || <span class="visually-hidden">Actions</span>
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {items.map((item) => (
            <tr
              key={keyOf(item)}
              class={onOpen ? "link" : ""}
              aria-selected={openKey === undefined ? undefined : openKey === keyOf(item)}
              onClick={onOpen && ((event) => opensRow(event) && onOpen(item))}
            >
              {onSelect && (
                <td class="fit">
                  <input
                    type="checkbox"
                    aria-label={`Select ${nameOf?.(item) ?? keyOf(item)}`}
                    checked={selected?.has(keyOf(item)) ?? false}
                    onChange={() => toggle(keyOf(item))}
                  />
                </td>
              )}
              {columns.map((column) => (
                <td
                  key={column.id}
                  class={column.look}
                  data-label={column.look?.includes("title") || !column.title ? undefined : column.title}
                >
                  {column.cell(item)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Whether a click on a row opens it: not a click on a control, nor the end of a text selection. */
function opensRow(event: MouseEvent): boolean {
  return (
    !(event.target as Element).closest("a, button, input, select, label, .menu") && getSelection()?.toString() === ""
  );
}

interface PageInfo {
  page: number;
  limit: number;
  total: number;
  totalPages: number;
  hasNext: boolean;
  hasPrev: boolean;
}

/** The position in a list and the buttons to the next and the previous page. */
export function Pagination({
  info,
  onPage,
  label = "Pagination",
}: {
  info: PageInfo;
  onPage: (page: number) => void;
  /** Needed if a page has more than one. */
  label?: string;
}) {
  const first = (info.page - 1) * info.limit + 1;
  const count = new Intl.NumberFormat("en");
  return (
    <nav class="pagination" aria-label={label}>
      <span class="numeric">
        {info.total === 0
          ? "No items"
          : `${count.format(first)} to ${count.format(Math.min(info.total, first + info.limit - 1))} of ${count.format(info.total)}`}
      </span>
      {info.totalPages > 1 && (
        <span class="row">
          <Button size="small" icon="left" disabled={!info.hasPrev} onClick={() => onPage(info.page - 1)}>
            Previous
          </Button>
          <span class="numeric">
            Page {info.page} of {count.format(info.totalPages)}
          </span>
          <Button size="small" disabled={!info.hasNext} onClick={() => onPage(info.page + 1)}>
            Next
          </Button>
        </span>
      )}
    </nav>
  );
}
