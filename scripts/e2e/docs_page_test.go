package e2e

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func (e explained) testDocuments(t *testing.T) {
	for _, base := range []string{e.cloudBase, e.workerBase} {
		for path, want := range map[string]string{
			"/openapi.json": `"openapi":"3.0.3"`, "/openapi.yaml": "openapi: 3.0.3\n",
			"/openapi-3.1.json": `"openapi":"3.1.0"`, "/openapi-3.1.yaml": "openapi: 3.1.0\n",
		} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(answer.Body)
			answer.Body.Close()
			if err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(text), want) {
				t.Errorf("%s: %s, %d bytes without %q (%v)", base+path, answer.Status, len(text), want, err)
			}
		}
	}
}

// shown is which operations are open.
type shown struct {
	IDs     []string
	InSight bool
	Hash    string
}

func (e explained) testLinks(t *testing.T) {
	links := []struct {
		link  string
		opens []string
	}{
		{"#/License/authorizeLaunch", []string{"operations-License-authorizeLaunch"}},
		{"#/Worker%20integration/getProfileConfig", []string{"operations-Worker_integration-getProfileConfig"}},
		{"#/License/noSuchOperation", []string{}},
		{"#/No%20such/thing/at/all", []string{}},
		{"#/%E0%A4%A", []string{}},
		{"#no-link-of-ours", []string{}},
	}
	var steps []step
	for _, l := range links {
		steps = append(steps, step{"visit", l.link}, step{"shown", l.opens})
	}
	after := len(steps)
	const health = "operations-Health-getCloudHealth"
	seen := e.explore(t, e.cloudBase, nil, append(steps,
		step{"find", "HEALTH delete", 0},
		step{"find", "cloudhealth GET", 1},
		step{"keyboard", health},
		step{"shown", []string{health}, "#/Health/getCloudHealth"},
	)...)
	for i, l := range links {
		got := read[shown](t, seen, 2*i+1)
		if !slices.Equal(got.IDs, l.opens) || got.InSight != (len(l.opens) > 0) {
			t.Errorf("%s shows %+v, want %q", l.link, got, l.opens)
		}
	}
	if none, found := read[[]string](t, seen, after), read[[]string](t, seen, after+1); len(none) != 0 || !slices.Equal(found, []string{"/health"}) {
		t.Errorf("the searches find %v and %v", none, found)
	}
	if focus := read[struct{ InDialog, After string }](t, seen, after+2); !strings.HasPrefix(focus.InDialog, "credential-") || focus.After != "credentials-button" {
		t.Errorf("the focus goes to %+v", focus)
	}
	if opened := read[shown](t, seen, after+3); opened.Hash != "#/Health/getCloudHealth" {
		t.Errorf("after an operation was opened by keys: %+v", opened)
	}
}

// kept is what the page tells of credentials, and all that the browser stores.
type kept struct {
	Remember            bool
	Where, Button, Kept string
}

func (e explained) testRemembering(t *testing.T) {
	call := step{"call", "#/License/listLicenseSessions"}
	give := map[string]string{"organizationKey": e.key}
	seen := e.explore(t, e.cloudBase, nil,
		step{"visit"},
		step{"give", give}, call, step{"credentials"},
		step{"reload"}, step{"credentials"}, call,
		step{"give", give, true}, step{"credentials"},
		step{"reload"}, step{"credentials"}, call,
		step{"give", give, false}, step{"credentials"}, call,
		step{"give", give, true}, step{"reload"}, step{"forget"}, step{"credentials"}, call,
		step{"reload"}, step{"credentials"}, call,
	)
	for _, c := range []struct {
		at             int
		when           string
		used, remember bool
	}{
		{3, "given", true, false},
		{5, "given, after a reload", false, false},
		{8, "to be remembered", true, true},
		{10, "to be remembered, after a reload", true, true},
		{13, "to be remembered no more", true, false},
		{18, "forgotten", false, false},
		{21, "forgotten, after a reload", false, false},
	} {
		told := read[kept](t, seen, c.at)
		button, where := "Credentials", "memory of this tab"
		if c.used {
			button += ": 1 in use"
		}
		if c.remember {
			where = "unencrypted in this browser's local storage"
		}
		if told.Button != button || told.Remember != c.remember || !strings.Contains(told.Where, where) || strings.Contains(told.Kept, e.key) != c.remember {
			t.Errorf("%s: %+v", c.when, told)
		}
		if status := read[shownAnswer](t, seen, c.at+1).Status; c.at != 3 && c.at != 8 && (status == http.StatusOK) != c.used {
			t.Errorf("%s, a call shows %d", c.when, status)
		}
	}
	if status := read[shownAnswer](t, seen, 2).Status; status != http.StatusOK {
		t.Errorf("with the key, a call shows %d", status)
	}
}

func (e explained) testColours(t *testing.T) {
	const light, dark = "rgb(244, 245, 248)", "rgb(18, 21, 26)"
	for scheme, system := range map[string]string{"light": light, "dark": dark} {
		seen := e.explore(t, e.workerBase, map[string]any{"scheme": scheme},
			step{"visit"}, step{"theme"}, step{"theme", "dark"}, step{"reload"}, step{"theme"},
			step{"theme", "light"}, step{"theme"}, step{"dialog"}, step{"findings"}, step{"reload"},
			step{"theme", ""}, step{"reload"}, step{"theme"},
		)
		for at, want := range map[int]string{1: system, 2: dark, 4: dark, 6: light, 12: system} {
			if got := read[struct{ Ground string }](t, seen, at).Ground; got != want {
				t.Errorf("on a %s system, step %d: the ground is %s, want %s", scheme, at, got, want)
			}
		}
		accessible(t, seen, 8)
	}
}

func (e explained) testPhone(t *testing.T) {
	seen := e.explore(t, e.workerBase, map[string]any{"width": 360, "scheme": "dark"},
		step{"visit", "#/Browsers/listBundles"},
		step{"overflow"},
		step{"give", map[string]string{"workerKey": e.worker.key}},
		step{"call", "#/Browsers/listBundles"},
		step{"overflow"},
		step{"picture", "docs-phone-dark"},
		step{"dialog"},
		step{"overflow"},
		step{"findings"},
	)
	for _, at := range []int{1, 4, 7} {
		if wider := read[int](t, seen, at); wider > 0 {
			t.Errorf("step %d: the page is %d pixels wider than the screen", at, wider)
		}
	}
	type bundles struct{ Items []struct{ Filename string } }
	if b := answers[bundles](t, seen, 3, http.StatusOK); len(b.Items) == 0 {
		t.Error("no bundles")
	}
	accessible(t, seen, 8)
}
