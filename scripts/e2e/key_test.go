package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/gen/sharedapi"
)

func TestAWorkerWithARevokedKeyLaunchesNothingAndEndsNothing(t *testing.T) {
	site, page := newSite(t), page(t)
	request := site.plain(t, true)
	session := site.worker.launch(t, request)
	old := site.key
	revoked, err := site.dashboard.RevokeApiKeyWithResponse(t.Context(), site.org, site.keyID)
	answered(t, err, revoked, http.StatusOK)

	refusal := site.worker.refuses(t, request, http.StatusBadGateway)
	if refusal.Code != sharedapi.ErrorCodeEXTERNALSERVICEERROR {
		t.Errorf("with a revoked key, the error is %+v", refusal)
	}
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
