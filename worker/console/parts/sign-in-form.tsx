import { send } from "../../../shared/web/api/client";
import { ApiError } from "../../../shared/web/api/errors";
import { CheckField, FormFrame, TextField, useForm } from "../../../shared/web/forms/form";
import { Button } from "../../../shared/web/ui";
import { api, keyHeader, rememberKey, type Schema } from "../api";
import { texts } from "../texts/shell";

/** A key is a header value, so it is printable ASCII. */
const rule = {
  type: "object",
  required: ["key"],
  properties: {
    key: { type: "string", maxLength: 512, pattern: "^[\\x21-\\x7E]+$" },
    keep: { type: "boolean" },
  },
} as const;

/** Checks the key and keeps it: in a cookie or in memory. Returns the load of the machine, which only a key can read. */
async function signIn(key: string, keep: boolean): Promise<Schema<"FleetLive">> {
  const headers = { [keyHeader]: key };
  if (!keep) {
    const live = await send(api.GET("/fleet/live", { headers }));
    rememberKey(key);
    return live;
  }
  await send(api.POST("/console/session", { headers }));
  rememberKey(undefined);
  try {
    return await send(api.GET("/fleet/live"));
  } catch (error) {
    throw error instanceof ApiError && error.status === 401 ? fieldError("keep", texts.cookieRefused) : error;
  }
}

function fieldError(field: string, message: string): ApiError {
  return new ApiError(401, "AUTHENTICATION_ERROR", message, [{ field, message, code: "CUSTOM" }]);
}

/** The form with the worker key. */
export function SignInForm({ onSignedIn }: { onSignedIn: (live: Schema<"FleetLive">) => void }) {
  const form = useForm({
    rule,
    initial: { key: "", keep: false },
    body: (values) => ({ ...values, key: values.key.trim() }),
    onSubmit: async (body) => {
      try {
        onSignedIn(await signIn(body["key"] as string, body["keep"] === true));
      } catch (error) {
        throw error instanceof ApiError && error.status === 401 && error.details.length === 0
          ? fieldError("key", texts.keyRefused)
          : error;
      }
    },
  });
  return (
    <FormFrame form={form} label={texts.signIn}>
      <TextField
        form={form}
        name="key"
        label={texts.key}
        type="password"
        autocomplete="current-password"
        spellcheck={false}
      />
      <CheckField form={form} name="keep" label={texts.keep} hint={texts.keepHint} />
      <Button type="submit" kind="primary" busy={form.busy} wide>
        {texts.signIn}
      </Button>
    </FormFrame>
  );
}
