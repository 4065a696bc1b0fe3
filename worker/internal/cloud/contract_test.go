package cloud_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/cloud"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// newLoggedClient returns a cloud, a client and the client's log.
func newLoggedClient(t *testing.T) (*cloudtest.Cloud, *cloud.Client, *testenv.Log) {
	t.Helper()
	fake, log := cloudtest.New(t), &testenv.Log{}
	client, err := cloud.New(fake.URL, cloudtest.Key, machine, nil, nil, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return fake, client, log
}

func TestContract_ComparesVersions(t *testing.T) {
	const own = cloudapi.ContractVersion
	if own != "1.0.0" {
		t.Fatalf("the contract version is %s: adapt the versions in this test, which assume 1.0.0", own)
	}
	for _, test := range []struct {
		stated, actual string
		fit            cloud.Fit
		level, do      string
	}{
		{own, own, cloud.FitCompatible, "INFO", ""},
		{"1.0.9", "1.0.9", cloud.FitCompatible, "INFO", ""},
		{"1.12.0", "1.12.0", cloud.FitCompatible, "INFO", ""},
		{"2.0.0", "2.0.0", cloud.FitIncompatible, "ERROR", "update this worker to a release for version 2"},
		{"0.9.0", "0.9.0", cloud.FitIncompatible, "ERROR", "update the cloud to a release with version 1.0"},
		{"", "", cloud.FitUnstated, "WARN", "update the cloud"},
		{"new", "", cloud.FitUnstated, "WARN", "update the cloud"},
		{"1.0", "", cloud.FitUnstated, "WARN", "update the cloud"},
		{"1.0.-1", "", cloud.FitUnstated, "WARN", "update the cloud"},
		{"01.0.0", "", cloud.FitUnstated, "WARN", "update the cloud"},
	} {
		t.Run("version "+test.stated, func(t *testing.T) {
			fake, client, log := newLoggedClient(t)
			if diff := cmp.Diff(cloud.Contract{Expected: own, Fit: cloud.FitUnknownYet}, client.Contract()); diff != "" {
				t.Errorf("before the first answer (-want +got):\n%s", diff)
			}
			fake.SetContractVersion(test.stated)
			for range 3 {
				if err := client.CheckContract(t.Context()); (err != nil) != (test.fit == cloud.FitIncompatible) {
					t.Errorf("CheckContract: %v", err)
				}
			}
			if diff := cmp.Diff(cloud.Contract{Expected: own, Actual: test.actual, Fit: test.fit}, client.Contract()); diff != "" {
				t.Errorf("contract (-want +got):\n%s", diff)
			}
			if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), "level="+test.level) || !strings.Contains(log.String(), test.do) {
				t.Errorf("want one line of level %s with %q, got\n%s", test.level, test.do, log)
			}
		})
	}
}

// TestContract_OlderMinorIsLogged uses a worker of a later version than the first.
func TestContract_OlderMinorIsLogged(t *testing.T) {
	fake, client, log := newLoggedClient(t)
	client = client.MadeFor("1.3.0")
	fake.SetContractVersion("1.2.7")
	if _, err := client.Authorize(t.Context(), authorization(fake.Profile(156))); err != nil {
		t.Errorf("an older minor version refused a launch: %v", err)
	}
	if got := client.Contract(); got.Fit != cloud.FitOlder || got.Actual != "1.2.7" || !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("%+v\n%s", got, log)
	}
}

func TestContract_OtherMajorIsNotRead(t *testing.T) {
	fake, client, log := newLoggedClient(t)
	profile := fake.Profile(156)
	fake.SetContractVersion("2.1.0")
	const message = "The cloud implements version 2.1.0 of the contract, this worker version 1.0.0. " +
		"To launch again, update this worker to a release for version 2 of the contract."
	for range 3 {
		_, err := client.Authorize(t.Context(), authorization(profile))
		assertFault(t, err, fault.Unavailable, message)
	}
	assertFault(t, client.ReportStart(t.Context(), started(profile)), fault.Unavailable, message)
	assertFault(t, client.ReportEnd(t.Context(), ended(profile)), fault.Unavailable, message)
	_, err := client.Heartbeat(t.Context(), session.OrganizationKey{}, 1, nil)
	assertFault(t, err, fault.Unavailable, message)
	// The first call was sent before the version was known. After it the client sends
	// only health requests.
	if n := len(fake.Calls()); n != 1 {
		t.Errorf("%d calls reached an incompatible cloud, want only the first", n)
	}
	if n := strings.Count(log.String(), "level=ERROR"); n != 1 {
		t.Errorf("%d errors in the log, want one:\n%s", n, log)
	}

	fake.SetContractVersion("1.4.0") // the cloud is downgraded
	if _, err := client.Authorize(t.Context(), authorization(profile)); err != nil {
		t.Errorf("with a compatible version: %v", err)
	}
	fake.SetContractVersion("2.1.0")
	if _, err := client.Authorize(t.Context(), authorization(profile)); err == nil {
		t.Error("an answer of an incompatible version was accepted")
	}
	if n := strings.Count(log.String(), "level=ERROR"); n != 2 {
		t.Errorf("%d errors in the log, want one per change:\n%s", n, log)
	}
}

func TestContract_IgnoresAnswersOfIntermediaries(t *testing.T) {
	fake, client, log := newLoggedClient(t)
	if err := client.CheckContract(t.Context()); err != nil {
		t.Fatal(err)
	}
	fake.Script(cloudtest.Authorize, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Del("X-Svc-Contract")
		cloudtest.Raw(502, "text/html", "<html>Bad gateway</html>")(w, r)
	})
	if _, err := client.Authorize(t.Context(), authorization(fake.Profile(156))); err == nil {
		t.Error("a page was accepted as a grant")
	}
	if got := client.Contract(); got.Fit != cloud.FitCompatible || strings.Contains(log.String(), "level=WARN") {
		t.Errorf("%+v\n%s", got, log)
	}
}

func TestContract_OutageKeepsLastVersion(t *testing.T) {
	fake, client, log := newLoggedClient(t)
	fake.Down(true)
	assertFault(t, client.CheckContract(t.Context()), fault.Unavailable, callFault)
	if got := client.Contract(); got.Fit != cloud.FitUnknownYet || log.String() != "" {
		t.Errorf("%+v\n%s", got, log)
	}
}
