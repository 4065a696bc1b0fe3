import { useEffect, useState } from "preact/hooks";
import { send } from "../../../shared/web/api/client";
import { FormFrame, SelectField, useForm } from "../../../shared/web/forms/form";
import { Button, CopyButton, Time } from "../../../shared/web/ui";
import { createViewTicket } from "../../../gen/web/worker-rules";
import { api, type Schema } from "../api";
import { texts } from "../texts/sessions";

const t = texts.drawer;
const rule = { ...createViewTicket, required: ["ttlSeconds"] };

/** Creates a link that only shows the screen. */
export function ViewTicketForm({ launchId }: { launchId: string }) {
  const [ticket, setTicket] = useState<Schema<"ViewTicket">>();
  const form = useForm({
    rule,
    initial: { ttlSeconds: "300" },
    body: (values) => ({ ttlSeconds: Number(values.ttlSeconds) }),
    onSubmit: async (body) => {
      setTicket(
        await send(
          api.POST("/browsers/{launchId}/view-ticket", {
            params: { path: { launchId } },
            body: body as Schema<"ViewTicketRequest">,
          }),
        ),
      );
    },
  });
  return (
    <FormFrame form={form} label={t.share}>
      <p class="faint small">{t.shareHint}</p>
      <div class="row ticket">
        <SelectField form={form} name="ttlSeconds" label={t.lifetime} options={t.lifetimes} />
        <Button type="submit" icon="eye" busy={form.busy}>
          {t.createTicket}
        </Button>
      </div>
      {ticket && <Ticket key={ticket.viewTicket} ticket={ticket} />}
    </FormFrame>
  );
}

function Ticket({ ticket }: { ticket: Schema<"ViewTicket"> }) {
  const [expired, setExpired] = useState(false);
  useEffect(() => {
    const left = Date.parse(ticket.viewExpiresAt) - Date.now();
    const timer = setTimeout(() => setExpired(true), Math.max(0, left));
    return () => clearTimeout(timer);
  }, []);
  return (
    <div class="stack tight" role="status">
      {expired ? (
        <p class="wait">{t.expired}</p>
      ) : (
        <>
          <div class="input-group">
            <input
              class="input mono"
              readOnly
              aria-label={t.ticket}
              value={ticket.viewUrl}
              onFocus={(event) => event.currentTarget.select()}
            />
            <CopyButton text={ticket.viewUrl} label={t.copyTicket} />
          </div>
          <p class="faint small">
            {t.expires} <Time at={ticket.viewExpiresAt} />
          </p>
        </>
      )}
    </div>
  );
}
