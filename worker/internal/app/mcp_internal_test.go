package app

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/oapi"
)

func TestReadMCPNetwork_ChecksRules(t *testing.T) {
	document, err := oapi.Parse(workerapi.Document)
	if err != nil {
		t.Fatal(err)
	}
	none := func(*http.Request) (context.Context, error) { return nil, oapi.ErrNoCredential }
	guard, err := oapi.NewGuard(document, oapi.Options{
		Authenticators: map[string]oapi.Authenticator{"workerKey": none, "consoleCookie": none, "recordingCookie": none},
	})
	if err != nil {
		t.Fatal(err)
	}
	parse := launchParser(guard)
	path := filepath.Join(t.TempDir(), "rules.json")
	if err := os.WriteFile(path, []byte(`{"navigate":{"allow":["*.example.com"]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, setting := range []string{path, `{"navigate":{"allow":["*.example.com"]}}`} {
		rules, err := readMCPNetwork(setting, parse)
		if err != nil || rules == nil || rules.Navigate.Allow[0] != "*.example.com" {
			t.Errorf("%s: %+v, %v", setting, rules, err)
		}
	}
	if rules, err := readMCPNetwork("", parse); rules != nil || err != nil {
		t.Errorf("nothing: %+v, %v", rules, err)
	}
	for setting, want := range map[string]string{
		path + "x":                    "no such file",
		`{`:                           "must be a JSON object",
		`{"navigate":{"alow":[]}}`:    "navigate",
		`{"uploads":"never"}`:         "uploads",
		`{"navigate":{"deny":["/"]}}`: "navigate.deny[0] must be",
	} {
		if rules, err := readMCPNetwork(setting, parse); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v", setting, rules, err)
		}
	}
}
