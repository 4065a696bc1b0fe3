import { Badge, ButtonLink, Icon } from "../../../shared/web/ui";
import { useManages, useSession } from "../session";
import { texts } from "../texts/overview";
import { useSendsMail } from "./auth";
import { useLatestMachines } from "./fleet";
import { useRecentSessions } from "./overview-data";
import { useProfileStats } from "./profile-data";
import { useAllKeys } from "./team";

interface Step {
  id: keyof typeof texts.step;
  to: string;
  done: boolean;
}

/** The steps of a new organization, from the state of the API; undefined if a part of it is not known. */
export function useSteps(): { pending: boolean; steps: Step[] | undefined } {
  const { user } = useSession();
  const manages = useManages();
  const sendsMail = useSendsMail();
  const machines = useLatestMachines();
  const stats = useProfileStats();
  const sessions = useRecentSessions();
  const keys = useAllKeys();
  const pending = [machines, stats, sessions].some((query) => query.isPending) || (manages && keys.isPending);
  if (!machines.data || !stats.data || !sessions.data || (manages && !keys.data)) return { pending, steps: undefined };
  const hasKey = (keys.data?.length ?? 0) > 0;
  const steps: Step[] = [
    { id: "verify", to: "/account", done: user.emailVerified },
    { id: "key", to: "/settings/keys", done: hasKey },
    {
      id: "worker",
      to: "/connect",
      done: machines.data.pagination.total > 0,
    },
    {
      id: "profile",
      to: "/profiles/new",
      done: stats.data.totalProfiles > 0,
    },
    {
      id: "launch",
      to: "/profiles",
      done: sessions.data.items.length > 0,
    },
  ];
  // Members may neither create keys nor see whether there are any. Without mail nobody can verify an address.
  const hidden = [...(manages ? [] : ["key"]), ...(sendsMail ? [] : ["verify"])];
  return { pending, steps: steps.filter((s) => !hidden.includes(s.id)) };
}

/** What a new organization should do next. Nothing is shown once all is done. */
export function NextSteps({ steps }: { steps: Step[] | undefined }) {
  const next = steps?.find((s) => !s.done);
  if (!steps || !next) return null;
  const done = steps.filter((s) => s.done);
  return (
    <section class="panel overview-steps">
      <header class="row apart">
        <h2>{texts.steps}</h2>
        <span class="faint numeric">{texts.stepsDone(done.length, steps.length)}</span>
      </header>
      <ol>
        {steps
          .filter((step) => !step.done)
          .map((step) => (
            <StepItem key={step.id} step={step} next={step === next} />
          ))}
      </ol>
      {done.length > 0 && (
        <details>
          <summary>{texts.doneSteps(done.length)}</summary>
          <ol>
            {done.map((step) => (
              <StepItem key={step.id} step={step} next={false} />
            ))}
          </ol>
        </details>
      )}
    </section>
  );
}

function StepItem({ step, next }: { step: Step; next: boolean }) {
  const { title, hint, action } = texts.step[step.id];
  return (
    <li class={step.done ? "done" : ""}>
      <span class="mark">{step.done && <Icon name="check" />}</span>
      <div class="grow">
        <p class="strong">{title}</p>
        {!step.done && <p class="faint small">{hint}</p>}
      </div>
      {step.done ? (
        <Badge tone="good">{texts.done}</Badge>
      ) : (
        <ButtonLink to={step.to} size="small" kind={next ? "primary" : undefined}>
          {action}
        </ButtonLink>
      )}
    </li>
  );
}
