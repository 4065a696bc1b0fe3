import { useMutation, useQueryClient } from "@tanstack/preact-query";
import { useState } from "preact/hooks";
import { send } from "../../../shared/web/api/client";
import { Button, ConfirmDialog, Dialog, ErrorNotice, Notice, toast } from "../../../shared/web/ui";
import { api, type Schema } from "../api";
import { liveQuery } from "../live";
import { texts } from "../texts/machine";
import { texts as shell } from "../texts/shell";

type Live = Schema<"FleetLive">;

/** Returns a function that takes over the state after draining or resuming. */
function useUpdate(): (live: Live) => void {
  const queries = useQueryClient();
  return (live) => {
    queries.setQueryData(liveQuery.queryKey, live);
    void queries.invalidateQueries({ queryKey: ["status"] });
  };
}

/** Whether the worker accepts launches, why not, and the buttons that change it. */
export function Availability({ live }: { live: Live }) {
  const [asking, setAsking] = useState<"drain" | "resume">();
  const close = () => setAsking(undefined);
  return (
    <>
      <Notice
        tone={live.isAvailable ? "good" : "wait"}
        title={live.isAvailable ? texts.available : `${texts.unavailable} ${shell.reasonName(live.reason)}.`}
        action={
          live.draining ? (
            <Button icon="play" onClick={() => setAsking("resume")}>
              {texts.resume}
            </Button>
          ) : (
            <Button icon="pause" onClick={() => setAsking("drain")}>
              {texts.drain}
            </Button>
          )
        }
      >
        {!live.isAvailable && shell.reasonAdvice(live.reason)}
      </Notice>
      {asking === "drain" && <DrainDialog onClose={close} />}
      {asking === "resume" && <ResumeDialog onClose={close} />}
    </>
  );
}

function DrainDialog({ onClose }: { onClose: () => void }) {
  const update = useUpdate();
  const drain = async () => {
    update(await send(api.POST("/fleet/drain")));
    toast(texts.drained);
  };
  return (
    <ConfirmDialog title={texts.drainTitle} action={texts.drain} onConfirm={drain} onClose={onClose}>
      <p>{texts.drainHint}</p>
    </ConfirmDialog>
  );
}

function ResumeDialog({ onClose }: { onClose: () => void }) {
  const update = useUpdate();
  const { mutate, isPending, error } = useMutation({
    mutationFn: () => send(api.DELETE("/fleet/drain")),
    onSuccess: (live) => {
      update(live);
      if (live.draining) toast(texts.notResumed, "bad");
      else toast(texts.resumed);
      onClose();
    },
  });
  return (
    <Dialog
      title={texts.resumeTitle}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{texts.cancel}</Button>
          <Button kind="primary" busy={isPending} onClick={() => mutate()}>
            {texts.resume}
          </Button>
        </>
      }
    >
      <p>{texts.resumeHint}</p>
      {error ? <ErrorNotice error={error} /> : null}
    </Dialog>
  );
}
