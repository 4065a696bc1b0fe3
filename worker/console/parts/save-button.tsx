import type { UseMutationResult } from "@tanstack/preact-query";
import type { ComponentChildren } from "preact";
import { Button } from "../../../shared/web/ui";

interface SaveButtonProps<Item> {
  /** The mutation that downloads an item. All buttons of a mutation wait for it. */
  saving: UseMutationResult<void, Error, Item>;
  item: NoInfer<Item>;
  /** The accessible name of a button without children. */
  label?: string;
  children?: ComponentChildren;
}

/** A button that saves an item as a file. */
export function SaveButton<Item>({ saving, item, label, children }: SaveButtonProps<Item>) {
  const { mutate, isPending, variables } = saving;
  return (
    <Button
      size="small"
      icon="download"
      aria-label={label}
      busy={isPending && variables === item}
      disabled={isPending}
      onClick={() => mutate(item)}
    >
      {children}
    </Button>
  );
}
