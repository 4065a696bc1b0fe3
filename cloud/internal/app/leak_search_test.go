package app

import (
	"bytes"
	"cmp"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/browser-svc/svc/shared/contracttest"
)

// leakSearch is a cloud whose answers and log are searched for values that it must not show.
type leakSearch struct {
	*testEnv
	t       *testing.T
	server  *httptest.Server
	log     bytes.Buffer
	checked *http.Client // validates requests and answers with the document
	values  []string
}

func newLeakSearch(t *testing.T, values ...string) *leakSearch {
	t.Helper()
	s := &leakSearch{t: t, testEnv: newTestEnv(t, nil), values: values}
	web, _, err := s.parts.newWebServer(s.config, slog.New(slog.NewTextHandler(&s.log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if err != nil {
		t.Fatal(err)
	}
	s.server = httptest.NewServer(web)
	t.Cleanup(s.server.Close)
	s.checked = contracttest.New(t, s.document, nil)
	return s
}

// tenant creates an organization with all kinds of resources.
func (s *leakSearch) tenant() tenant {
	v := newTenant(cheapHash(s.t))
	s.all.MustExec(v.fill(accessSQL))
	return v
}

// ask sends a request as a user of the tenant, or with its key for the user "". It searches
// the answer, unless that is the value for a worker.
func (s *leakSearch) ask(v tenant, user, method, path, body string, want int) string {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.server.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header = http.Header{"X-Api-Key": {v["key"]}, "Content-Type": {"application/json"}}
	if user != "" {
		r.Header = http.Header{"Authorization": {"Bearer " + s.signIn(s.t, v, user)}, "Content-Type": {"application/json"}}
	}
	client := s.checked
	if want == http.StatusBadRequest { // the request is not that of the document
		client = http.DefaultClient
	}
	answer, err := client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != want {
		s.t.Errorf("%s %s %s: %d %s %v, want %d", cmp.Or(user, "a worker"), method, path, answer.StatusCode, text, err, want)
	}
	if user != "" || want != http.StatusOK {
		s.search(method+" "+path, string(text))
	}
	return string(text)
}

func (s *leakSearch) search(what, text string) {
	s.t.Helper()
	for _, value := range s.values {
		if strings.Contains(text, value) {
			s.t.Errorf("%s contains %q: %s", what, value, text)
		}
	}
}

// checkLog searches the log.
func (s *leakSearch) checkLog() {
	s.t.Helper()
	if s.log.Len() == 0 {
		s.t.Error("the log is empty")
	}
	s.search("the log", s.log.String())
}
