import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Button } from "./button";
import { Icon, type IconName } from "./icon";

export interface MenuItem {
  label: string;
  icon?: IconName;
  danger?: boolean;
  disabled?: boolean;
  onSelect: () => void;
}

interface MenuProps {
  label: string;
  items: (MenuItem | "separator")[];
  /** The content of the button; without it, the button has an icon. */
  children?: ComponentChildren;
  icon?: IconName;
  side?: "left" | "up";
  buttonClass?: string;
}

/** A button that opens a list of actions. Arrow keys move, Escape closes. */
export function Menu({ label, items, children, icon = "more", side, buttonClass }: MenuProps) {
  const [open, setOpen] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  const button = () => root.current?.querySelector<HTMLElement>("[aria-haspopup]");
  const entries = () => [...(root.current?.querySelectorAll<HTMLElement>("[role=menuitem]:not(:disabled)") ?? [])];
  useEffect(() => {
    if (!open) return;
    place();
    entries()[0]?.focus({ preventScroll: true });
    const close = () => setOpen(false);
    const outside = (event: Event) => {
      if (!root.current?.contains(event.target as Node)) setOpen(false);
    };
    document.addEventListener("pointerdown", outside);
    addEventListener("scroll", close, { capture: true, passive: true });
    addEventListener("resize", close);
    return () => {
      document.removeEventListener("pointerdown", outside);
      removeEventListener("scroll", close, { capture: true });
      removeEventListener("resize", close);
    };
  }, [open]);
  // A fixed position is not cut off by a table that scrolls. Without enough space below, the list opens above.
  const place = () => {
    const list = root.current?.querySelector<HTMLElement>("[role=menu]");
    const box = button()?.getBoundingClientRect();
    if (!list || !box) return;
    const up = side === "up" || (box.bottom + list.offsetHeight + 8 > innerHeight && box.top > list.offsetHeight + 8);
    const left = side ? box.left : box.right - list.offsetWidth;
    list.style.inset = "auto";
    list.style.position = "fixed";
    list.style.top = `${up ? box.top - list.offsetHeight - 5 : box.bottom + 5}px`;
    list.style.left = `${Math.max(8, Math.min(left, innerWidth - list.offsetWidth - 8))}px`;
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (!open) return;
    const list = entries();
    const at = list.indexOf(document.activeElement as HTMLElement);
    const target = {
      ArrowDown: list[(at + 1) % list.length],
      ArrowUp: list[(at - 1 + list.length) % list.length],
      Home: list[0],
      End: list.at(-1),
    }[event.key];
    if (target) {
      event.preventDefault();
      target.focus();
    } else if (event.key === "Escape") {
      event.stopPropagation();
      event.preventDefault();
      setOpen(false);
      button()?.focus();
    } else if (event.key === "Tab") {
      setOpen(false);
    }
  };
  return (
    <div class="menu" ref={root} onKeyDown={onKeyDown} onClick={(event) => event.stopPropagation()}>
      <Button
        kind="quiet"
        icon={children ? undefined : icon}
        class={buttonClass}
        aria-label={label}
        aria-haspopup="menu"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
      >
        {children}
      </Button>
      {open && (
        <div class={`menu-list ${side ?? ""}`} role="menu" aria-label={label}>
          {items.map((item, i) =>
            item === "separator" ? (
              <hr key={i} class="menu-separator" role="separator" />
            ) : (
              <button
                key={item.label}
                type="button"
                role="menuitem"
                tabIndex={-1}
                class={`menu-item ${item.danger ? "danger" : ""}`}
                disabled={item.disabled}
                onClick={() => {
                  setOpen(false);
                  button()?.focus();
                  item.onSelect();
                }}
              >
                {item.icon && <Icon name={item.icon} />}
                {item.label}
              </button>
            ),
          )}
        </div>
      )}
    </div>
  );
}
