import { Fragment } from "preact";
import { Dialog } from "./dialog";
import type { MenuItem } from "./menu";
import { useTheme, type Theme } from "./theme";

/** A link, visible on focus, from the start of the page to its main element `#content`. */
export function SkipLink({ label }: { label: string }) {
  return (
    <a
      class="skip"
      href="#content"
      onClick={(event) => {
        event.preventDefault();
        document.getElementById("content")?.focus();
      }}
    >
      {label}
    </a>
  );
}

/** Lists the keyboard shortcuts: the keys, separated by spaces, and what they do. */
export function ShortcutHelp({
  title,
  rows,
  onClose,
}: {
  title: string;
  rows: [keys: string, action: string][];
  onClose: () => void;
}) {
  return (
    <Dialog title={title} onClose={onClose}>
      <dl class="facts">
        {rows.map(([keys, action]) => (
          <Fragment key={keys}>
            <dt>
              {keys.split(" ").map((k) => (
                <Fragment key={k}>
                  <kbd>{k}</kbd>{" "}
                </Fragment>
              ))}
            </dt>
            <dd>{action}</dd>
          </Fragment>
        ))}
      </dl>
    </Dialog>
  );
}

const nextTheme = { system: "light", light: "dark", dark: "system" } as const;

/** The items that the menu of each application has: theme, keyboard shortcuts and API documentation. */
export function useSharedItems(
  texts: { theme: Record<Theme, string>; shortcuts: string; documentation: string },
  onHelp: () => void,
): MenuItem[] {
  const [theme, setTheme] = useTheme();
  return [
    { label: texts.theme[theme], icon: "theme", onSelect: () => setTheme(nextTheme[theme]) },
    { label: texts.shortcuts, icon: "help", onSelect: onHelp },
    {
      label: texts.documentation,
      icon: "code",
      onSelect: () => void open(new URL("docs", document.baseURI), "_blank", "noreferrer"),
    },
  ];
}
