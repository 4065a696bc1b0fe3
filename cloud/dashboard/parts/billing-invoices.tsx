import { useQuery } from "@tanstack/preact-query";
import { Fragment } from "preact";
import { send } from "../../../shared/web/api/client";
import {
  Badge,
  ExternalButton,
  Icon,
  Loaded,
  Pagination,
  Table,
  formatDate,
  pageOf,
  useAddress,
  type Tone,
} from "../../../shared/web/ui";
import { api, type Schema } from "../api";
import { texts } from "../texts/billing";
import { money } from "./money";
import "./lists.css";

type Invoice = Schema<"Invoice">;

const tones: Record<Schema<"InvoiceStatus">, Tone | undefined> = {
  open: "wait",
  paid: "good",
  uncollectible: "bad",
  void: undefined,
};

/** The invoices, newest first. Each opens to its line items. */
export function BillingInvoices() {
  const [address, change] = useAddress<"page">();
  const page = pageOf(address.page);
  const invoices = useQuery({
    queryKey: ["billing", "invoices", { page }],
    queryFn: () => send(api.GET("/v1/billing/invoices", { params: { query: { page } } })),
  });
  return (
    <section class="stack" aria-labelledby="invoices-title">
      <h2 id="invoices-title">{texts.invoices}</h2>
      <Loaded query={invoices}>
        {({ items, pagination }) =>
          items.length === 0 ? (
            <p>{texts.noInvoices}</p>
          ) : (
            <div>
              <ul class="fold-list">
                {items.map((invoice) => (
                  <li key={invoice.id}>
                    <InvoiceEntry invoice={invoice} />
                  </li>
                ))}
              </ul>
              <Pagination info={pagination} onPage={(next) => change({ page: String(next) })} />
            </div>
          )
        }
      </Loaded>
    </section>
  );
}

function InvoiceEntry({ invoice }: { invoice: Invoice }) {
  const credit = invoice.totalCents < 0;
  return (
    <details>
      <summary class="invoice-row">
        <Icon name="right" />
        <span class="strong">{texts.invoice(invoice.number)}</span>
        <span class="faint">{formatDate(invoice.createdAt)}</span>
        <Badge tone={tones[invoice.status]}>{credit ? texts.credit : texts.invoiceStatuses[invoice.status]}</Badge>
        <span class="numeric strong">{money(invoice.totalCents, invoice.currency)}</span>
      </summary>
      <div class="fold-body stack">
        <Lines invoice={invoice} />
        {invoice.hostedUrl && (
          <div>
            <ExternalButton href={invoice.hostedUrl} size="small">
              {texts.openInvoice}
            </ExternalButton>
          </div>
        )}
      </div>
    </details>
  );
}

function Lines({ invoice }: { invoice: Invoice }) {
  const sums: [string, number][] = [
    [texts.subtotal, invoice.subtotalCents],
    [texts.invoiceTotal, invoice.totalCents],
    [texts.amountDue, invoice.amountDueCents],
  ];
  return (
    <>
      <Table
        label={texts.invoice(invoice.number)}
        items={invoice.lines.map((line, i) => ({ ...line, i }))}
        keyOf={(line) => String(line.i)}
        columns={[
          {
            id: "line",
            title: texts.line,
            look: "title",
            cell: (line) => line.description,
          },
          {
            id: "period",
            title: texts.linePeriod,
            cell: (line) => texts.periodOf(formatDate(line.periodStart), formatDate(line.periodEnd)),
          },
          {
            id: "quantity",
            title: texts.quantity,
            look: "end",
            cell: (line) => <span class="numeric">{line.quantity}</span>,
          },
          {
            id: "amount",
            title: texts.amount,
            look: "end",
            cell: (line) => <span class="numeric">{money(line.amountCents, invoice.currency)}</span>,
          },
        ]}
      />
      <dl class="facts invoice-sums">
        {sums.map(([label, cents]) => (
          <Fragment key={label}>
            <dt>{label}</dt>
            <dd class="numeric">{money(cents, invoice.currency)}</dd>
          </Fragment>
        ))}
      </dl>
    </>
  );
}
