package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/browser-svc/svc/gen/cloudapi"
)

// testApply applies a file with the token of a dashboard session, changes it, and prunes what it does not have.
func (c commandLine) testApply(t *testing.T, env testEnv) {
	session, file := filepath.Join(c.dir, "session"), filepath.Join(c.dir, "organization.yaml")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	own := env.cloud.signUp(t)
	plan, err := own.dashboard.StartCheckoutWithResponse(t.Context(), cloudapi.CheckoutRequest{Plan: "team"}) // for members
	requireAnswer(t, err, plan, http.StatusOK)
	write(session, own.token)
	apply := func(code int, parts string, args ...string) {
		t.Helper()
		out, errs := c.run(t, code, "", append([]string{"apply", "-f", file, "--token-file", session}, args...)...)
		for part := range strings.Lines(parts) {
			if !strings.Contains(out+errs, strings.TrimSpace(part)) {
				t.Errorf("apply %q does not print %s:\n%s%s", args, part, out, errs)
			}
		}
	}
	text := fmt.Sprintf(`organization: %s
profiles: [{name: Applied, browserVersion: %d, locale: de-DE}]
networkRules: {connect: {deny: [10.0.0.0/8]}}
---
members: [{email: Guest@example.com, role: member}]
serviceAccounts:
  - {name: deployment, scopes: [sessions:read, profiles:write]}
  - {name: retired, scopes: [profiles:read], disabled: true}
webhooks:
  - {url: 'https://hooks.example.com/svc', types: [session.started, session.ended]}
  - {url: 'https://old.example.com', enabled: false}
`, own.org, env.worker.newestVersion(t))
	write(file, text)
	all := `profile Applied: created
		locale: "de-DE"
		network rules of the organization: updated
		connect: {"deny":["10.0.0.0/8"]} instead of null
		invitation guest@example.com: created
		role: "member"
		service account deployment: created
		service account retired: created
		webhook https://hooks.example.com/svc: created
		webhook https://old.example.com: created
		7 changes`
	apply(7, all, "--dry-run")
	apply(7, all, "--dry-run") // the first one changed nothing
	apply(0, all)
	apply(0, "0 changes")
	apply(0, "0 changes", "--dry-run")

	changed := strings.NewReplacer("de-DE", "fr-FR", "role: member", "role: admin", "sessions:read, ", "", "session.started, ", "", "enabled: false", "enabled: true", "disabled: true", "disabled: false", "10.0.0.0/8", "10.1.0.0/16").Replace(text)
	write(file, changed)
	differences := `profile Applied: updated
		locale: "fr-FR" instead of "de-DE"
		connect: {"deny":["10.1.0.0/16"]} instead of {"deny":["10.0.0.0/8"]}
		invitation guest@example.com: updated
		role: "admin" instead of "member"
		scopes: ["profiles:write"] instead of ["profiles:write","sessions:read"]
		disabled: false instead of true
		types: ["session.ended"] instead of ["session.ended","session.started"]
		enabled: true instead of false
		7 changes`
	apply(7, differences, "--dry-run")
	apply(0, differences)
	apply(0, "0 changes")

	write(file, fmt.Sprintf("organization: %s\nnetworkRules: null\nmembers: []\nserviceAccounts: [{name: deployment, scopes: [profiles:write]}]\nwebhooks: [{url: 'https://hooks.example.com/svc'}]\n", own.org))
	removals := "\ninvitation guest@example.com: deleted\nservice account retired: deleted\nwebhook https://old.example.com: deleted\n"
	apply(7, "network rules of the organization: updated\nconnect: null instead\n1 changes", "--dry-run")
	apply(7, removals+"4 changes", "--dry-run", "--prune")
	apply(0, "1 changes") // without --prune, nothing is deleted
	apply(7, removals+"3 changes", "--dry-run", "--prune")
	apply(0, removals+"3 changes", "--prune")
	apply(0, "0 changes", "--prune")
	for _, profile := range decodeOutput[[]cloudapi.Profile](t, c, "profiles", "ls", "--token-file", session) { // the file has no profiles
		if profile.Name == "Applied" && profile.Locale != nil && *profile.Locale == "fr-FR" {
			c.testApplyRefusals(t, env, write, file)
			return
		}
	}
	t.Error("the profile does not exist")
}

func (c commandLine) testApplyRefusals(t *testing.T, env testEnv, write func(path, text string), file string) {
	for text, want := range map[string]struct {
		code int
		part string
	}{
		"profiles:\n- name: a\n  colour: red\n":                              {2, `line 3: profiles has the unknown field "colour"`},
		"profiles:\n- name: a\n  viewport: {width: 1, depth: 2}\n":           {2, `line 3: viewport has the unknown field "depth"`},
		"serviceAccounts:\n- name: a\n  tokens: []\n":                        {2, `line 3: serviceAccounts has the unknown field "tokens"`},
		"members: {a: admin}\n":                                              {2, "line 1: members has to be a list"},
		"- name: a\n":                                                        {2, "line 1: the file has to be an object"},
		"members: []\n":                                                      {2, "has to name the organization"},
		"profiles: [{name: a}, {name: a}]\n":                                 {2, `each profile needs its own name, not "a"`},
		"profiles:\n":                                                        {2, "profiles: has to be a list"},
		"networkRules: {}\n---\nnetworkRules: {}\n":                          {2, "two documents have networkRules"},
		"organization: " + env.org.String() + "\nserviceAccounts: []\n":      {5, "Access tokens are not allowed for this operation."},
		"organization: 019a5f3e-2c11-7d2a-9a3e-6b1b3c9d0e02\nprofiles: []\n": {1, "not the active organization"},
	} {
		write(file, text)
		if _, errs := c.run(t, want.code, "", "apply", "-f", file); !strings.Contains(errs, want.part) {
			t.Errorf("%q: %s", text, errs)
		}
	}
}
