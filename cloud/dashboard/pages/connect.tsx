import { useQuery } from "@tanstack/preact-query";
import { useState } from "preact/hooks";
import { send } from "../../../shared/web/api/client";
import { Loaded } from "../../../shared/web/ui";
import { api } from "../api";
import { ConnectKey, type WorkerKey } from "../parts/connect-key";
import { ConnectRun } from "../parts/connect-run";
import { ConnectWait } from "../parts/connect-wait";
import { useSession } from "../session";
import { texts } from "../texts/connect";
import "./connect.css";

/** Guides a user from a key to the first heartbeat of a worker, and to a program that launches a browser. */
export default function Page() {
  const organizationId = useSession().organization.id;
  // The full key of a new key is only here: not in the address, the cache or the storage of the browser.
  const [key, setKey] = useState<WorkerKey>();
  const guide = useQuery({
    queryKey: ["connect"],
    staleTime: Infinity,
    queryFn: () =>
      send(
        api.GET("/v1/organizations/{organizationId}/connect", {
          params: { path: { organizationId } },
        }),
      ),
  });
  return (
    <>
      <div class="page-header">
        <div>
          <h1>{texts.title}</h1>
          <p>{texts.intro}</p>
        </div>
      </div>
      <Loaded query={guide}>
        {(found) => (
          <div class="stack connect">
            <ConnectKey chosen={key} placeholder={found.keyPlaceholder} onChoose={setKey} />
            <ConnectRun guide={found} created={key?.created} />
            <ConnectWait
              key={key?.apiKey.id}
              keyId={key?.apiKey.id}
              organizationKey={key?.created?.key ?? found.keyPlaceholder}
              cloudUrl={found.cloudUrl}
            />
          </div>
        )}
      </Loaded>
    </>
  );
}
