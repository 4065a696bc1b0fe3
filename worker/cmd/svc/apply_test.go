package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestParseFile_JoinsDocuments(t *testing.T) {
	for text, want := range map[string]string{
		"": `{}`,
		"profiles: [{name: a}]\n---\nprofiles: [{name: b}]\nnetworkRules: null": `{"networkRules":null,"profiles":[{"name":"a"},{"name":"b"}]}`,
		"x: &x {name: a}": "",
		"members: &m [{email: a@b.example, role: member}]\n---\nserviceAccounts: []": `{"members":[{"email":"a@b.example","role":"member"}],"serviceAccounts":[]}`,
		`{"profiles": [{"name": "a", "metadata": {"any": 1}}]}`:                      `{"profiles":[{"metadata":{"any":1},"name":"a"}]}`,
	} {
		content, err := parseFile([]byte(text))
		got, _ := json.Marshal(content)
		if want == "" && err == nil || want != "" && (err != nil || string(got) != want) {
			t.Errorf("%q: got %s, %v, want %s", text, got, err, want)
		}
	}
}

func TestParseFile_RefusesUnknownFieldsWithLine(t *testing.T) {
	for text, want := range map[string]string{
		"profiles:\n- name: a\n  colour: red\n":                    `line 3: profiles has the unknown field "colour"; known are args, browserVersion,`,
		"profiles:\n- name: a\n  viewport: {width: 1, depth: 2}\n": `line 3: viewport has the unknown field "depth"; known are height, width`,
		"profiles: []\n---\nsecrets: []\n":                         `line 3: the file has the unknown field "secrets"`,
		"serviceAccounts:\n- name: a\n  tokens: []\n":              `line 3: serviceAccounts has the unknown field "tokens"; known are disabled, name, scopes`,
		"webhooks:\n- url: https://a.example\n  secret: b\n":       `line 3: webhooks has the unknown field "secret"; known are description, enabled, types, url`,
		"members: {a: admin}\n":                                    "line 1: members has to be a list",
		"\n- name: a\n":                                            "line 2: the file has to be an object",
		"networkRules: {}\n---\nnetworkRules: {}\n":                "line 3: two documents have networkRules",
		"networkRules:\n  connect: {refuse: [a]}\n":                `line 2: connect has the unknown field "refuse"`,
	} {
		if _, err := parseFile([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

const (
	organization = "019a5f3e-2c11-7d2a-9a3e-6b1b3c9d0e02"
	self         = "019a5f3e-0b6a-7c11-8f55-2f1e9b6f0a01"
)

// membersCloud has an owner, the caller and another admin, a member and an invitation. It refuses invitations, and the session of
// an access token.
type membersCloud struct {
	isToken bool
	deleted []string // the ends of paths
}

// ServeHTTP implements http.Handler.
func (c *membersCloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	list := func(items ...string) {
		_, _ = fmt.Fprintf(w, `{"success":true,"data":{"items":[%s],"pagination":{"hasNext":false}}}`, strings.Join(items, ","))
	}
	refuse := func(status int, code string) {
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"success":false,"error":{"code":%q,"message":"Refused."}}`, code)
	}
	item := func(id, email, role string) string {
		return fmt.Sprintf(`{"id":%q,"email":%q,"role":%q}`, id, email, role)
	}
	part := filepath.Base(r.URL.Path)
	switch {
	case r.Method == http.MethodDelete:
		c.deleted = append(c.deleted, part)
		_, _ = fmt.Fprint(w, `{"success":true,"data":{}}`)
	case r.Method == http.MethodPost:
		refuse(http.StatusTooManyRequests, "RATE_LIMIT_ERROR")
	case part == "session" && c.isToken:
		refuse(http.StatusForbidden, "AUTHORIZATION_ERROR")
	case part == "session":
		_, _ = fmt.Fprintf(w, `{"success":true,"data":{"user":{"id":%q}}}`, self)
	case part == "members":
		list(item(organization, "owner@example.com", "owner"), item(self, "self@example.com", "admin"),
			item("019a5f3e-0b6a-7c11-8f55-2f1e9b6f0a02", "admin@example.com", "admin"),
			item("019a5f3e-0b6a-7c11-8f55-2f1e9b6f0a03", "member@example.com", "member"))
	default:
		list(item("019a5f3e-0b6a-7c11-8f55-2f1e9b6f0a04", "guest@example.com", "member"))
	}
}

// applyTo applies the members section of a file.
func (c *membersCloud) applyTo(t *testing.T, members string, args ...string) (code int, out, errs string) {
	t.Helper()
	isolate(t)
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	t.Setenv("SVC_CLOUD_URL", server.URL)
	t.Setenv("SVC_TOKEN", "token")
	file := filepath.Join(t.TempDir(), "organization.yaml")
	if err := os.WriteFile(file, []byte("organization: "+organization+"\nmembers: "+members+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return invoke(t, append([]string{"apply", "-f", file}, args...)...)
}

func TestApply_PrunesNeitherOwnersNorTheCaller(t *testing.T) {
	for isToken, want := range map[bool][]string{false: {"0a02", "0a03", "0a04"}, true: {"0a03", "0a04"}} {
		c := &membersCloud{isToken: isToken}
		if code, out, errs := c.applyTo(t, "[]", "--prune"); code != 0 {
			t.Errorf("exit code %d: %s%s", code, out, errs)
		}
		var got []string
		for _, id := range c.deleted {
			got = append(got, id[len(id)-4:])
		}
		if !slices.Equal(got, want) {
			t.Errorf("access token %t: deleted %v, want %v", isToken, got, want)
		}
	}
}

func TestApply_DryRunExitsWithDifferencesInJSON(t *testing.T) {
	for members, want := range map[string]int{"[{email: new@example.com, role: member}]": exitDifferences, "[{email: self@example.com, role: admin}]": 0} {
		code, out, errs := (&membersCloud{}).applyTo(t, members, "--dry-run", "--json")
		var results []applied
		if err := json.Unmarshal([]byte(out), &results); err != nil || len(results) != 1 || code != want || errs != "" {
			t.Errorf("%s: exit code %d, want %d; %v, %s%s", members, code, want, err, out, errs)
		}
	}
}

func TestApply_ReportsALostInvitation(t *testing.T) {
	code, _, errs := (&membersCloud{}).applyTo(t, "[{email: guest@example.com, role: admin}]")
	if code != exitLimit || !strings.Contains(errs, `"guest@example.com": the invitation with the role member was revoked, and the new one was refused: Refused.`) {
		t.Errorf("exit code %d: %s", code, errs)
	}
}
