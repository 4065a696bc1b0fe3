package e2e

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func (e docsTest) testDocuments(t *testing.T) {
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

// openOperations contains the operations that the page shows expanded.
type openOperations struct {
	IDs     []string
	Visible bool
	Hash    string
}

func (e docsTest) testLinks(t *testing.T) {
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
	var steps []visitStep
	for _, l := range links {
		steps = append(steps, visitStep{"visit", l.link}, visitStep{"waitForOpen", l.opens})
	}
	after := len(steps)
	const health = "operations-Health-getCloudHealth"
	visit := e.visit(t, e.cloudBase, nil, append(steps,
		visitStep{"search", "HEALTH delete", 0},
		visitStep{"search", "cloudhealth GET", 1},
		visitStep{"keyboard", health},
		visitStep{"waitForOpen", []string{health}, "#/Health/getCloudHealth"},
	)...)
	for i, l := range links {
		got := stepResult[openOperations](t, visit, 2*i+1)
		if !slices.Equal(got.IDs, l.opens) || got.Visible != (len(l.opens) > 0) {
			t.Errorf("%s opened %+v, want %q", l.link, got, l.opens)
		}
	}
	if none, found := stepResult[[]string](t, visit, after), stepResult[[]string](t, visit, after+1); len(none) != 0 || !slices.Equal(found, []string{"/health"}) {
		t.Errorf("the searches found %v and %v", none, found)
	}
	if focus := stepResult[struct{ InDialog, After string }](t, visit, after+2); !strings.HasPrefix(focus.InDialog, "credential-") || focus.After != "credentials-button" {
		t.Errorf("the focus moved to %+v", focus)
	}
	if opened := stepResult[openOperations](t, visit, after+3); opened.Hash != "#/Health/getCloudHealth" {
		t.Errorf("after an operation was opened with the keyboard: %+v", opened)
	}
}

// credentialState is what the page shows about credentials, and everything that the
// browser stores.
type credentialState struct {
	Remember              bool
	Where, Button, Stored string
}

func (e docsTest) testStoredCredentials(t *testing.T) {
	call := visitStep{"call", "#/License/listLicenseSessions"}
	credentials := map[string]string{"organizationKey": e.key}
	visit := e.visit(t, e.cloudBase, nil,
		visitStep{"visit"},
		visitStep{"enterCredentials", credentials}, call, visitStep{"credentials"},
		visitStep{"reload"}, visitStep{"credentials"}, call,
		visitStep{"enterCredentials", credentials, true}, visitStep{"credentials"},
		visitStep{"reload"}, visitStep{"credentials"}, call,
		visitStep{"enterCredentials", credentials, false}, visitStep{"credentials"}, call,
		visitStep{"enterCredentials", credentials, true}, visitStep{"reload"}, visitStep{"forgetCredentials"}, visitStep{"credentials"}, call,
		visitStep{"reload"}, visitStep{"credentials"}, call,
	)
	for _, c := range []struct {
		step           int
		when           string
		used, remember bool
	}{
		{3, "entered", true, false},
		{5, "entered, after a reload", false, false},
		{8, "stored", true, true},
		{10, "stored, after a reload", true, true},
		{13, "no longer stored", true, false},
		{18, "removed", false, false},
		{21, "removed, after a reload", false, false},
	} {
		state := stepResult[credentialState](t, visit, c.step)
		button, where := "Credentials", "memory of this tab"
		if c.used {
			button += ": 1 in use"
		}
		if c.remember {
			where = "unencrypted in this browser's local storage"
		}
		if state.Button != button || state.Remember != c.remember || !strings.Contains(state.Where, where) || strings.Contains(state.Stored, e.key) != c.remember {
			t.Errorf("%s: %+v", c.when, state)
		}
		if status := stepResult[displayedResponse](t, visit, c.step+1).Status; c.step != 3 && c.step != 8 && (status == http.StatusOK) != c.used {
			t.Errorf("%s, a call shows %d", c.when, status)
		}
	}
	if status := stepResult[displayedResponse](t, visit, 2).Status; status != http.StatusOK {
		t.Errorf("with the key, a call shows %d", status)
	}
}

func (e docsTest) testColorSchemes(t *testing.T) {
	const light, dark = "rgb(244, 245, 248)", "rgb(18, 21, 26)"
	for scheme, system := range map[string]string{"light": light, "dark": dark} {
		visit := e.visit(t, e.workerBase, map[string]any{"scheme": scheme},
			visitStep{"visit"}, visitStep{"theme"}, visitStep{"theme", "dark"}, visitStep{"reload"}, visitStep{"theme"},
			visitStep{"theme", "light"}, visitStep{"theme"}, visitStep{"dialog"}, visitStep{"findings"}, visitStep{"reload"},
			visitStep{"theme", ""}, visitStep{"reload"}, visitStep{"theme"},
		)
		for step, want := range map[int]string{1: system, 2: dark, 4: dark, 6: light, 12: system} {
			if got := stepResult[struct{ Background string }](t, visit, step).Background; got != want {
				t.Errorf("on a %s system, step %d: the background is %s, want %s", scheme, step, got, want)
			}
		}
		assertAccessible(t, visit, 8)
	}
}

func (e docsTest) testSmallScreen(t *testing.T) {
	visit := e.visit(t, e.workerBase, map[string]any{"width": 360, "scheme": "dark"},
		visitStep{"visit", "#/Catalog/listBundles"},
		visitStep{"overflow"},
		visitStep{"enterCredentials", map[string]string{"workerKey": e.worker.key}},
		visitStep{"call", "#/Catalog/listBundles"},
		visitStep{"overflow"},
		visitStep{"screenshot", "docs-phone-dark"},
		visitStep{"dialog"},
		visitStep{"overflow"},
		visitStep{"findings"},
	)
	for _, step := range []int{1, 4, 7} {
		if wider := stepResult[int](t, visit, step); wider > 0 {
			t.Errorf("step %d: the page is %d pixels wider than the screen", step, wider)
		}
	}
	type bundles struct{ Items []struct{ Filename string } }
	if b := responseData[bundles](t, visit, 3, http.StatusOK); len(b.Items) == 0 {
		t.Error("no bundles")
	}
	assertAccessible(t, visit, 8)
}
