package e2e

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/gen/sharedapi"
)

// notReady returns an error unless the program at the address is not ready for this
// reason.
func notReady(address, reason string) error {
	answer, err := http.Get(address + "/readyz")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(text), `"reason":"`+reason+`"`) {
		return fmt.Errorf("the response is %s %s (%w)", answer.Status, text, err)
	}
	return nil
}

func TestRevokedKey_RefusesLaunchesAndKeepsSessions(t *testing.T) {
	t.Parallel()
	env, page := newTestEnv(t), servePage(t)
	request := env.newLaunchRequest(t, true)
	session := env.worker.launch(t, request)
	old := env.key
	revoked, err := env.dashboard.RevokeApiKeyWithResponse(t.Context(), env.org, env.keyID)
	requireAnswer(t, err, revoked, http.StatusOK)

	refusal := env.worker.requireLaunchRefused(t, request, http.StatusFailedDependency)
	if refusal.Code != sharedapi.ErrorCodeAUTHENTICATIONERROR || refusal.Details == nil || (*refusal.Details)[0].Field != "SVC_KEY" {
		t.Errorf("with a revoked key, the error is %+v", refusal)
	}
	eventually(t, 5*time.Second, "the worker is not ready", func() error { return notReady(env.worker.url, "key_refused") })
	assertDrivable(t, session, page)

	env.newKey(t, env.cloud)
	if charged := env.usage(t); charged.Current != 1 {
		t.Errorf("charged %+v, want the running browser", charged)
	}
	env.worker.drain(t)
	i := slices.Index(env.worker.environment, "SVC_KEY="+old)
	env.worker.environment[i] = "SVC_KEY=" + env.key
	env.worker.start(t)
	env.waitForSlots(t, 0, 10*time.Second) // released by the first heartbeat with the new key
	assertDrivable(t, env.worker.launch(t, request), page)
	if strings.Contains(env.worker.logText(), old) {
		t.Error("the worker's log contains the old key")
	}
}
