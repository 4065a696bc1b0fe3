package contracttest_test

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/shared/contracttest"
)

// recorded makes exchanges with a document with this title, and returns the recorded
// observations and the result of the test.
func recorded(t *testing.T, title string, statuses ...int) (map[contracttest.Observation]bool, []string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv(contracttest.ObservationsVariable, dir)
	failures := answerWith(t, title, statuses...)
	observations, err := contracttest.ReadObservations(dir)
	if err != nil {
		t.Fatal(err)
	}
	return observations, failures
}

// answerWith requests a pet once for each status, and then another resource.
func answerWith(t *testing.T, title string, statuses ...int) []string {
	t.Helper()
	document := load(t)
	document.spec.Info.Title = title
	failed := &recorder{TB: t}
	next := 0
	client := contracttest.New(failed, document, roundTrip(func(r *http.Request) (*http.Response, error) {
		body := strings.NewReader(missing)
		if statuses[next] == http.StatusOK {
			body = strings.NewReader(pet)
		}
		header := http.Header{"Content-Type": {"application/json"}, "X-Request-Id": {"12345678"}}
		next++
		return &http.Response{StatusCode: statuses[next-1], Header: header, Body: io.NopCloser(body), Request: r}, nil
	}))
	for range statuses {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x"+petPath, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-API-Key", "key")
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
	}
	return failed.failures
}

func TestRecorder_RecordsCheckedExchanges(t *testing.T) {
	observations, failures := recorded(t, "svc cloud API", 200, 404, 200, 503)
	want := map[contracttest.Observation]bool{
		{Surface: "cloud", OperationID: "getPet", Status: 200}: true,
		{Surface: "cloud", OperationID: "getPet", Status: 404}: true,
		{Surface: "cloud", OperationID: "getPet", Status: 503}: true,
	}
	if diff := cmp.Diff(want, observations); diff != "" || len(failures) > 0 {
		t.Errorf("recorded (-want +got):\n%s%v", diff, failures)
	}
}

func TestRecorder_IgnoresTestDocuments(t *testing.T) {
	if observations, _ := recorded(t, "Pets", 200); len(observations) > 0 {
		t.Errorf("recorded %v", observations)
	}
}

func TestRecorder_AppendsEachObservationOnce(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(contracttest.ObservationsVariable, dir)
	answerWith(t, "svc worker API", 200, 200, 200)
	answerWith(t, "svc cloud API", 404, 404)
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("%v %v", files, err)
	}
	text, err := os.ReadFile(dir + "/" + files[0].Name())
	if err != nil {
		t.Fatal(err)
	}
	if want := "worker getPet 200\ncloud getPet 404\n"; string(text) != want {
		t.Errorf("recorded %q, want %q", text, want)
	}
}

func TestRecorder_WriteErrorFailsTest(t *testing.T) {
	t.Setenv(contracttest.ObservationsVariable, "relative")
	failures := strings.Join(answerWith(t, "svc cloud API", 200), "\n")
	if !strings.Contains(failures, "CONTRACT_SEEN must be an absolute path") {
		t.Errorf("failures: %q", failures)
	}
}

func TestReadObservations_RefusesUnknownFormat(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/1", []byte("cloud getPet\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := contracttest.ReadObservations(dir); err == nil {
		t.Error("no error")
	}
}
