package e2e

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
)

// launchAfterEnd ends a session and launches immediately, with all slots taken.
func (a *acceptance) launchAfterEnd(t *testing.T) {
	var last response
	request := fmt.Sprintf(`{"profileId":%q,"browser":{"startUrls":[]}}`, a.profile) // a launch without a tab is faster
	for range freeSlots - 1 {                                                        // one browser already runs
		last = a.launch(t, request)
	}
	a.worker.post(t, "/sessions/profile", request).requireError(t, 402, "AUTHORIZATION_ERROR", "profileId CUSTOM").
		requireValue(t, "error.details.0.constraint", `{"current":3,"limit":3,"reason":"concurrency_limit"}`)
	refused, launches := 0, testenv.Depth(2, 30)
	for range launches {
		a.worker.do(t, "DELETE", "/sessions/"+last.text("data.id"), "").requireStatus(t, 200)
		next := a.worker.post(t, "/sessions/profile", request)
		if next.status == http.StatusPaymentRequired {
			refused++
			eventually(t, 10*time.Second, "the cloud has the end of the session", func() error {
				if next = a.worker.post(t, "/sessions/profile", request); next.status != http.StatusCreated {
					return fmt.Errorf("a launch returned %s", next.body)
				}
				return nil
			})
		}
		last = next.requireStatus(t, 201)
	}
	a.worker.do(t, "DELETE", "/sessions/"+last.text("data.id"), "").requireStatus(t, 200)
	if refused > 0 {
		t.Errorf("%d of %d launches right after an end were refused", refused, launches)
	}
}

func (a *acceptance) readiness(t *testing.T) {
	for _, by := range []apiClient{a.cloud, a.anonymous} {
		by.get(t, "/livez").requireStatus(t, 200).requireValue(t, "data.status", `"alive"`)
		by.get(t, "/readyz").requireStatus(t, 200).requireValue(t, "data.status", `"ready"`)
	}
	a.worker.post(t, "/fleet/drain", "").requireStatus(t, 200)
	answer := a.anonymous.get(t, "/readyz").requireError(t, 503, "EXTERNAL_SERVICE_ERROR", "draining CUSTOM")
	answer.requireValue(t, "error.details.0.constraint.reason", `"draining"`)
	a.anonymous.get(t, "/livez").requireStatus(t, 200)
	a.worker.do(t, "DELETE", "/fleet/drain", "").requireStatus(t, 200)
	a.anonymous.get(t, "/readyz").requireStatus(t, 200)
}

func (a *acceptance) dataSaved(t *testing.T) {
	created := a.owner.post(t, "/v1/profiles", fmt.Sprintf(`{"name":"x","browserVersion":%d,"persist":true}`, a.version)).requireStatus(t, 201).text("data.id")
	for profile, saved := range map[string]string{created: "true", a.profile: "null"} {
		launched := a.launch(t, fmt.Sprintf(`{"profileId":%q}`, profile))
		ended := a.worker.do(t, "DELETE", "/sessions/"+launched.text("data.id"), "").requireStatus(t, 200)
		ended.requireValue(t, "data.dataSaved", saved)
		ended.requireValue(t, "data.dataNotSavedReason", "null")
	}
	a.owner.do(t, "DELETE", "/v1/profiles/"+created, "")
}

// revokedWorkerKey revokes the worker's own key. The worker cannot launch after that.
func (a *acceptance) revokedWorkerKey(t *testing.T) {
	id := a.owner.get(t, "/v1/organizations/"+a.org+"/api-keys").requireStatus(t, 200).text("data.items.0.id")
	a.owner.do(t, "DELETE", "/v1/organizations/"+a.org+"/api-keys/"+id, "").requireStatus(t, 200)
	for range 2 {
		a.worker.post(t, "/sessions/profile", a.launchRequest()).requireError(t, 424, "AUTHENTICATION_ERROR", "SVC_KEY CUSTOM")
	}
	eventually(t, 15*time.Second, "the worker is not ready", func() error { return notReady(a.anonymous.base, "key_refused") })
	answer := a.anonymous.get(t, "/readyz").requireError(t, 503, "EXTERNAL_SERVICE_ERROR", "license CUSTOM")
	answer.requireValue(t, "error.details.0.constraint.reason", `"key_refused"`)
	live := a.worker.get(t, "/fleet/live").requireStatus(t, 200)
	live.requireValue(t, "data.isAvailable", "false")
	live.requireValue(t, "data.reason", `"key_refused"`)
	a.anonymous.get(t, "/health").requireStatus(t, 200).requireValue(t, "data.license", `"key_refused"`)
	before := a.worker.get(t, "/fleet/status").requireStatus(t, 200).text("data.license.lastAnswerAt")
	a.worker.post(t, "/sessions/profile", a.launchRequest()).requireStatus(t, 424)
	if now := a.worker.get(t, "/fleet/status").text("data.license.lastAnswerAt"); now != before {
		t.Errorf("lastAnswerAt changed from %s to %s although the key is refused", before, now)
	}
	a.worker.get(t, "/sessions/"+a.demo.session).requireStatus(t, 200).requireValue(t, "data.status", `"running"`)
}

func (a *acceptance) portsInUse(t *testing.T) {
	dir := publicDir(t)
	p := startProgram(t, "run", root, filepath.Join(dir, "run.log"), "SVC_DIR="+filepath.Join(dir, "data"), "CLOUD_PORT="+a.demo.cloudPort, "WORKER_PORT="+freePort(t))
	select {
	case <-p.done:
	case <-time.After(readyTimeout):
		t.Fatal("the program did not exit")
	}
	if status := p.cmd.ProcessState.ExitCode(); status != 1 || !strings.Contains(p.logText(), "port "+a.demo.cloudPort+" is in use") {
		t.Errorf("status %d: %s", status, p.logText())
	}
	bin, err := binaries()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "run"), "--help").Output(); err != nil || !strings.Contains(string(out), "Usage:") {
		t.Errorf("--help: %v %s", err, out)
	}
}
