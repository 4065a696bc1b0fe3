import { ApiError } from "../../../shared/web/api/errors";
import { ButtonLink, ErrorNotice, Notice } from "../../../shared/web/ui";
import { texts } from "../texts/launch";

/** A failure that concerns the license or the worker, not a field. It keeps the original for its details. */
class LaunchRefusal extends ApiError {
  constructor(readonly original: ApiError) {
    super(original.status, original.code, original.message, [], original.requestId, original.retryAfter);
  }
}

/** Returns the error for the form: refusals name a field of the request, but no input can correct them. */
export function asRefusal(error: unknown): unknown {
  return error instanceof ApiError && [402, 503, 504].includes(error.status) ? new LaunchRefusal(error) : error;
}

/** Explains why the license refuses a launch. */
function licenseReason(error: ApiError): string {
  const { refusals } = texts;
  const detail = error.details[0];
  const number = (name: string) => String(detail?.constraint?.[name] ?? "?");
  if (detail?.message === "concurrency_limit") return refusals.concurrency_limit(number("current"), number("limit"));
  if (detail?.message === "profile_limit")
    return refusals.profile_limit(
      number(detail.constraint?.["profileCount"] ? "profileCount" : "current"),
      number("limit"),
    );
  return refusals.other;
}

function explanation(error: ApiError): string {
  if (error.status === 402) return licenseReason(error);
  if (error.status === 504) return texts.late;
  if (error.code === "AUTHENTICATION_ERROR") return texts.keyHint;
  const wait = error.retryAfter ? ` ${texts.retryAfter(error.retryAfter)}` : "";
  return texts.unavailableHint + wait;
}

/** Why the launch failed, and what to do. */
export function LaunchFailure({ error }: { error: unknown }) {
  if (!(error instanceof LaunchRefusal)) return <ErrorNotice error={error} />;
  const original = error.original;
  const full = original.status === 402;
  return (
    <Notice
      tone="bad"
      title={original.message}
      action={
        <ButtonLink to={full ? "/sessions" : "/machine"} size="small" icon={full ? "activity" : "server"}>
          {full ? texts.toSessions : texts.toMachine}
        </ButtonLink>
      }
    >
      <p>{explanation(original)}</p>
      {!full && original.details.length > 0 && (
        <ul class="small">
          {original.details.map((d) => (
            <li key={d.field}>
              <code>{d.field}</code>: {d.message}
            </li>
          ))}
        </ul>
      )}
    </Notice>
  );
}
