import type { ComponentChildren, JSX } from "preact";
import { Link } from "wouter-preact";
import { Icon, type IconName } from "./icon";

interface Look {
  kind?: "primary" | "danger" | "quiet";
  size?: "small";
  icon?: IconName;
  wide?: boolean;
}

function className({ kind, size, icon, wide }: Look, iconOnly: boolean, extra?: unknown): string {
  return ["button", kind, size, icon && iconOnly && "icon", wide && "wide", extra].filter(Boolean).join(" ");
}

type ButtonProps = Look & { busy?: boolean } & Omit<JSX.ButtonHTMLAttributes<HTMLButtonElement>, "size" | "icon">;

/** A button. `busy` shows a spinner and disables it. A button with only an icon needs an `aria-label`. */
export function Button({ kind, size, icon, wide, busy, children, class: extra, ...rest }: ButtonProps) {
  return (
    <button
      type="button"
      {...rest}
      title={rest.title ?? (children ? undefined : rest["aria-label"])}
      disabled={busy || rest.disabled}
      aria-busy={busy || undefined}
      class={className({ kind, size, icon, wide }, !children, extra)}
    >
      {busy ? <span class="spinner" /> : icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

/** A link to a page of the application that looks like a button. */
export function ButtonLink({
  to,
  kind,
  size,
  icon,
  wide,
  children,
}: Look & { to: string; children: ComponentChildren }) {
  return (
    <Link href={to} class={className({ kind, size, icon, wide }, false)}>
      {icon && <Icon name={icon} />}
      {children}
    </Link>
  );
}

/** A link to another address that looks like a button and opens a new tab. */
export function ExternalButton({
  href,
  kind,
  size,
  icon = "external",
  children,
}: Look & { href: string; children: ComponentChildren }) {
  return (
    <a href={href} target="_blank" rel="noreferrer" class={className({ kind, size, icon }, false)}>
      <Icon name={icon} />
      {children}
      <span class="visually-hidden"> (opens a new tab)</span>
    </a>
  );
}
