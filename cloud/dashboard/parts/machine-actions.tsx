import { useQueryClient } from "@tanstack/preact-query";
import { useState } from "preact/hooks";
import { send } from "../../../shared/web/api/client";
import { FormFrame, TextField, useForm } from "../../../shared/web/forms/form";
import { Button, ConfirmDialog, Dialog, machineName, toast } from "../../../shared/web/ui";
import { updateMachine as rule } from "../../../gen/web/cloud-rules";
import { api, type Schema } from "../api";
import { texts } from "../texts/machines";

type Machine = Schema<"Machine">;

/** Renames a machine, and deletes one that is offline. Only for owners and admins. */
export function MachineActions({ machine, onDeleted }: { machine: Machine; onDeleted: () => void }) {
  const [dialog, setDialog] = useState<"rename" | "delete">();
  const close = () => setDialog(undefined);
  return (
    <div class="row">
      <Button onClick={() => setDialog("rename")}>{texts.detail.rename}</Button>
      {machine.state === "offline" && (
        <Button kind="danger" onClick={() => setDialog("delete")}>
          {texts.detail.delete}
        </Button>
      )}
      {dialog === "rename" && <RenameDialog machine={machine} onClose={close} />}
      {dialog === "delete" && <DeleteDialog machine={machine} onDeleted={onDeleted} onClose={close} />}
    </div>
  );
}

function RenameDialog({ machine, onClose }: { machine: Machine; onClose: () => void }) {
  const queries = useQueryClient();
  const form = useForm({
    rule,
    initial: { name: machine.name ?? "" },
    body: ({ name }) => ({ name: name.trim() || null }),
    onSubmit: async (body) => {
      const request = body as Schema<"UpdateMachineRequest">;
      await send(
        api.PATCH("/v1/machines/{machineId}", {
          params: { path: { machineId: machine.machineId } },
          body: request,
        }),
      );
      await queries.invalidateQueries({ queryKey: ["machines"] });
      onClose();
    },
  });
  return (
    <Dialog title={texts.detail.renameTitle(machineName(machine))} onClose={onClose}>
      <FormFrame form={form} label={texts.detail.rename}>
        <TextField form={form} name="name" label={texts.detail.name} hint={texts.detail.nameHint} autocomplete="off" />
        <div class="row end">
          <Button onClick={onClose}>{texts.detail.cancel}</Button>
          <Button type="submit" kind="primary" busy={form.busy} disabled={!form.dirty}>
            {texts.detail.rename}
          </Button>
        </div>
      </FormFrame>
    </Dialog>
  );
}

function DeleteDialog({
  machine,
  onDeleted,
  onClose,
}: {
  machine: Machine;
  onDeleted: () => void;
  onClose: () => void;
}) {
  const queries = useQueryClient();
  const confirm = async () => {
    await send(api.DELETE("/v1/machines/{machineId}", { params: { path: { machineId: machine.machineId } } }));
    toast(texts.detail.deleted);
    void queries.invalidateQueries({ queryKey: ["machines"] });
    onDeleted();
  };
  return (
    <ConfirmDialog
      title={texts.detail.deleteTitle(machineName(machine))}
      action={texts.detail.delete}
      onConfirm={confirm}
      onClose={onClose}
    >
      <p>{texts.detail.deleteHint}</p>
    </ConfirmDialog>
  );
}
