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

// notReady is an error unless the program at that address is not ready, for that
// reason.
func notReady(address, reason string) error {
	answer, err := http.Get(address + "/readyz")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(text), `"reason":"`+reason+`"`) {
		return fmt.Errorf("it answers %s %s (%w)", answer.Status, text, err)
	}
	return nil
}

func TestAWorkerWithARevokedKeyLaunchesNothingAndEndsNothing(t *testing.T) {
	site, page := newSite(t), page(t)
	request := site.plain(t, true)
	session := site.worker.launch(t, request)
	old := site.key
	revoked, err := site.dashboard.RevokeApiKeyWithResponse(t.Context(), site.org, site.keyID)
	answered(t, err, revoked, http.StatusOK)

	refusal := site.worker.refuses(t, request, http.StatusServiceUnavailable)
	if refusal.Code != sharedapi.ErrorCodeAUTHENTICATIONERROR || refusal.Details == nil || (*refusal.Details)[0].Field != "SVC_KEY" {
		t.Errorf("with a revoked key, the error is %+v", refusal)
	}
	eventually(t, 5*time.Second, "the worker is not ready", func() error { return notReady(site.worker.url, "key_refused") })
	assertDrivable(t, session, page)

	site.newKey(t, site.cloud)
	if charged := site.charged(t); charged.Current != 1 {
		t.Errorf("charged %+v, want the browser that runs", charged)
	}
	site.worker.drain(t)
	i := slices.Index(site.worker.environment, "SVC_KEY="+old)
	site.worker.environment[i] = "SVC_KEY=" + site.key
	site.worker.start(t)
	site.released(t, 0, 10*time.Second) // the first heartbeat with the new key
	assertDrivable(t, site.worker.launch(t, request), page)
	if strings.Contains(site.worker.said(), old) {
		t.Error("the worker's log has the old key")
	}
}
