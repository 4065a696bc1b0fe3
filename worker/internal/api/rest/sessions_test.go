package rest_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// TestURLs_UsePublicAddressOnly is specification 2.4: URLs have the worker's public
// address, including the load balancer's prefix, and the control token.
func TestURLs_UsePublicAddressOnly(t *testing.T) {
	for _, tc := range []struct{ public, web, socket, location string }{
		{"http://localhost:3000", "http://localhost:3000/browsers/", "ws://localhost:3000/browsers/", "/sessions/"},
		{"https://workers.example", "https://workers.example/browsers/", "wss://workers.example/browsers/", "/sessions/"},
		{"https://lb.example/w/worker-1", "https://lb.example/w/worker-1/browsers/", "wss://lb.example/w/worker-1/browsers/", "/w/worker-1/sessions/"},
	} {
		r := newTestServer(t, tc.public)
		var got workerapi.BrowserSessionResponse
		answer := r.call(t.Context(), t, "POST", "/sessions/profile", `{"profileId":"`+profile+`"}`, &got)
		data := got.Data
		if want := tc.location + data.Id.String(); answer.Header.Get("Location") != want {
			t.Errorf("%s: Location %q, want %q", tc.public, answer.Header.Get("Location"), want)
		}
		for address, want := range map[string]string{
			*data.WebSocketDebuggerUrl: tc.socket + data.LaunchId.String() + "/devtools/browser/5f1c6c0e-58f8",
			*data.DevtoolsFrontendUrl:  tc.web + data.LaunchId.String() + "/devtools",
			*data.ViewUrl:              tc.web + data.LaunchId.String() + "/view",
		} {
			bare, query, _ := strings.Cut(address, "?")
			values, err := url.ParseQuery(query)
			if err != nil || bare != want || len(values) != 1 {
				t.Errorf("%s: %s, want %s?ct=...", tc.public, address, want)
			}
			if _, err := r.tokens.Verify(values.Get("ct"), data.LaunchId.String(), ticket.Control); err != nil {
				t.Errorf("%s: the token does not open its launch: %v", address, err)
			}
		}
	}
}

// TestGetBrowserSession_ReturnsSameToken is specification 5.5.1.
func TestGetBrowserSession_ReturnsSameToken(t *testing.T) {
	r := newTestServer(t, "http://localhost:3000")
	s := r.add(started)
	launchID := s.LaunchID.String()
	r.tokens.Begin(launchID)
	read := func() (socket, view, devtools string) {
		t.Helper()
		var response workerapi.BrowserSessionResponse
		r.call(t.Context(), t, "GET", "/sessions/"+s.ID.String(), "", &response)
		var list workerapi.BrowserSessionListResponse
		r.call(t.Context(), t, "GET", "/sessions", "", &list)
		if listed := list.Data.Items[0]; *listed.ViewUrl != *response.Data.ViewUrl || *listed.WebSocketDebuggerUrl != *response.Data.WebSocketDebuggerUrl {
			t.Error("the list has other URLs")
		}
		return tokenIn(*response.Data.WebSocketDebuggerUrl), tokenIn(*response.Data.ViewUrl), tokenIn(*response.Data.DevtoolsFrontendUrl)
	}
	socket, view, devtools := read()
	again, _, _ := read()
	if view != socket || devtools != socket || again != socket {
		t.Error("the URLs contain more than one token")
	}
	claims, err := r.tokens.Verify(socket, launchID, ticket.Control)
	if err != nil || !r.tokens.Spend(launchID, claims, ticket.LivePage) {
		t.Fatal(err)
	}
	after, view, devtools := read()
	_, viewAgain, _ := read()
	if after != socket || view == socket || devtools != socket || viewAgain != view {
		t.Error("after a page was opened, only its URL must have a new token")
	}
}

func tokenIn(address string) string {
	_, token, _ := strings.Cut(address, "?ct=")
	return token
}

func TestGetBrowserSession_EndedHasNoURLs(t *testing.T) {
	r := newTestServer(t, "http://localhost:3000")
	s := r.add(started)
	var got workerapi.BrowserSessionResponse
	r.call(t.Context(), t, "DELETE", "/sessions/"+s.ID.String(), "", &got)
	endedAt, reason := started.Add(time.Minute), sharedapi.SessionEndReasonKilled
	want := workerapi.BrowserSession{
		Id: s.ID, LaunchId: s.LaunchID, Status: sharedapi.SessionStatusKilled, StartedAt: started, ProfileId: s.ProfileID, ProfileName: "Checkout",
		BrowserVersion: 156, Engine: "chromium", Headless: true, Metadata: sharedapi.Metadata{"team": "checkout"}, EndedAt: &endedAt, EndReason: &reason,
		Bundle: &workerapi.ChosenBundle{Filename: "pixel-9.json", Name: "Google Pixel 9"},
		Start:  workerapi.BrowserStart{ColdReasons: []string{"persist"}},
		Timeline: []workerapi.TimelineStep{
			{Step: "asked", At: started}, {Step: "authorized", At: started.Add(2500 * time.Microsecond), AfterMs: 2.5},
			{Step: "ended", At: endedAt, AfterMs: 60000},
		},
	}
	if diff := cmp.Diff(want, got.Data); diff != "" {
		t.Errorf("session (-want +got):\n%s", diff)
	}
	var read workerapi.BrowserSessionResponse
	r.call(t.Context(), t, "GET", "/sessions/"+s.ID.String(), "", &read)
	if diff := cmp.Diff(got, read); diff != "" {
		t.Errorf("read (-deleted +read):\n%s", diff)
	}
	if again := r.call(t.Context(), t, "DELETE", "/sessions/"+s.ID.String(), "", nil); again.StatusCode != 200 {
		t.Errorf("second DELETE: got %d", again.StatusCode)
	}
}

func TestGetBrowserSession_ReportsWhyDataWasNotSaved(t *testing.T) {
	r := newTestServer(t, "http://localhost:3000")
	s := r.add(started)
	r.sessions.End(s.ID, session.End{
		At: started, Status: session.Killed, Reason: session.ByRequest, SaveResult: &session.SaveResult{Reason: session.DataTooLarge},
	})
	var got workerapi.BrowserSessionResponse
	r.call(t.Context(), t, "GET", "/sessions/"+s.ID.String(), "", &got)
	if saved, why := got.Data.DataSaved, got.Data.DataNotSavedReason; saved == nil || *saved || why == nil || *why != workerapi.DataNotSavedReasonTooLarge {
		t.Errorf("session %+v", got.Data)
	}
}

func TestGetBrowserSession_ReturnsExitCode(t *testing.T) {
	r := newTestServer(t, "http://localhost:3000")
	s := r.add(started)
	r.sessions.End(s.ID, session.End{At: started, Status: session.Exited, Reason: session.Crash, ExitCode: new(-9)})
	var got workerapi.BrowserSessionResponse
	r.call(t.Context(), t, "GET", "/sessions/"+s.ID.String(), "", &got)
	if got.Data.ExitCode == nil || *got.Data.ExitCode != -9 || got.Data.Status != sharedapi.SessionStatusExited {
		t.Errorf("session %+v", got.Data)
	}
}

func TestListBrowserSessions_PagesFiltersAndSorts(t *testing.T) {
	r := newTestServer(t, "http://localhost:3000")
	first, second, third := r.add(started), r.add(started.Add(time.Second)), r.add(started.Add(2*time.Second))
	r.sessions.End(second.ID, session.End{At: started.Add(time.Minute), Status: session.Killed, Reason: session.ByRequest})
	for _, tc := range []struct {
		query string
		want  []uuid.UUID
		page  sharedapi.Pagination
	}{
		{"", []uuid.UUID{third.ID, second.ID, first.ID}, sharedapi.Pagination{Page: 1, Limit: 20, Total: 3, TotalPages: 1}},
		{"?sortOrder=asc&limit=2", []uuid.UUID{first.ID, second.ID}, sharedapi.Pagination{Page: 1, Limit: 2, Total: 3, TotalPages: 2, HasNext: true}},
		{"?sortOrder=asc&limit=2&page=2", []uuid.UUID{third.ID}, sharedapi.Pagination{Page: 2, Limit: 2, Total: 3, TotalPages: 2, HasPrev: true}},
		{"?status=killed&sortBy=endedAt", []uuid.UUID{second.ID}, sharedapi.Pagination{Page: 1, Limit: 20, Total: 1, TotalPages: 1}},
		{"?status=exited", nil, sharedapi.Pagination{Page: 1, Limit: 20}},
	} {
		t.Run(tc.query, func(t *testing.T) {
			var got workerapi.BrowserSessionListResponse
			r.call(t.Context(), t, "GET", "/sessions"+tc.query, "", &got)
			var ids []uuid.UUID
			for _, item := range got.Data.Items {
				ids = append(ids, item.Id)
			}
			if diff := cmp.Diff(tc.want, ids); diff != "" {
				t.Errorf("sessions (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.page, got.Data.Pagination); diff != "" {
				t.Errorf("pagination (-want +got):\n%s", diff)
			}
		})
	}
}

func TestListBrowserSessions_FiltersByNameAndMetadata(t *testing.T) {
	r := newTestServer(t, "http://localhost:3000")
	add := func(name string, metadata map[string]string) uuid.UUID {
		s := r.add(started)
		r.sessions.Relabel(s.ID, &name, metadata)
		return s.ID
	}
	a := add("a", map[string]string{"team": "x", "run": "1=2"})
	b := add("b", map[string]string{"team": "x"})
	for query, want := range map[string][]uuid.UUID{
		"name=a": {a}, "name=A": nil, "metadata=team%3Dx": {b, a}, "metadata=team=x&metadata=run=1%3D2": {a},
		"metadata=team=y": nil, "metadata=team=": nil, "name=b&metadata=run=1%3D2": nil, "name=b&status=running": {b},
	} {
		var got workerapi.BrowserSessionListResponse
		r.call(t.Context(), t, "GET", "/sessions?"+query, "", &got)
		var ids []uuid.UUID
		for _, item := range got.Data.Items {
			ids = append(ids, item.Id)
		}
		if diff := cmp.Diff(want, ids); diff != "" || got.Data.Pagination.Total != int64(len(want)) {
			t.Errorf("%s: total %d, sessions (-want +got):\n%s", query, got.Data.Pagination.Total, diff)
		}
	}
}

func TestUpdateBrowserSession(t *testing.T) {
	r := newTestServer(t, "http://localhost:3000")
	s := r.add(started)
	path := "/sessions/" + s.ID.String()
	var got workerapi.BrowserSessionResponse
	answer := r.call(t.Context(), t, "PATCH", path, `{"idleTimeoutSeconds":60,"maxDurationSeconds":0,"connectTimeoutSeconds":5,"name":"Nightly","metadata":{"run":"7"}}`, &got)
	want := launch.Update{
		Limits: launch.LimitChanges{Idle: new(time.Minute), Max: new(time.Duration(0)), Connect: new(5 * time.Second)},
		Name:   new("Nightly"), Metadata: map[string]string{"run": "7"},
	}
	if diff := cmp.Diff([]launch.Update{want}, r.updates); diff != "" || answer.StatusCode != 200 {
		t.Errorf("got %d, update (-want +got):\n%s", answer.StatusCode, diff)
	}
	if *got.Data.Name != "Nightly" || got.Data.Metadata["run"] != "7" || *got.Data.IdleTimeoutSeconds != 0 || got.Data.ExpiresAt != nil {
		t.Errorf("session %+v", got.Data)
	}
	for _, tc := range []struct {
		path, body string
		err        error
		status     int
	}{
		{path, `{}`, nil, 400},
		{path, `{"idleTimeoutSeconds":-1}`, nil, 400},
		{path, `{"status":"killed"}`, nil, 400},
		{path, `{"maxDurationSeconds":5}`, fault.Field("maxDurationSeconds", "must be more"), 400},
		{path, `{"name":"a"}`, fault.New(fault.Conflict, "The session has ended."), 409},
		{"/sessions/" + profile, `{"name":"a"}`, nil, 404},
	} {
		r.err = tc.err
		if answer := r.call(contracttest.AllowInvalidRequest(t.Context()), t, "PATCH", tc.path, tc.body, nil); answer.StatusCode != tc.status {
			t.Errorf("%s: answered %d, want %d", tc.body, answer.StatusCode, tc.status)
		}
	}
}

func TestListBrowserSessions_RefusesInvalidQuery(t *testing.T) {
	r := newTestServer(t, "http://localhost:3000")
	for _, tc := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/sessions/" + profile, 404},
		{"DELETE", "/sessions/" + profile, 404},
		{"GET", "/sessions/abc", 400},
		{"DELETE", "/sessions/abc", 400},
		{"GET", "/sessions?limit=0", 400},
		{"GET", "/sessions?limit=101", 400},
		{"GET", "/sessions?page=0", 400},
		{"GET", "/sessions?sortBy=name", 400},
		{"GET", "/sessions?status=dead", 400},
		{"GET", "/sessions?metadata=team", 400},
		{"GET", "/sessions?name=", 400},
		{"GET", "/sessions?order=asc", 400},
		{"GET", "/profiles/versions?x=1", 400},
	} {
		if answer := r.call(contracttest.AllowInvalidRequest(t.Context()), t, tc.method, tc.path, "", nil); answer.StatusCode != tc.status {
			t.Errorf("%s %s answered %d, want %d", tc.method, tc.path, answer.StatusCode, tc.status)
		}
	}
}

func TestHealth_AndBrowserVersions(t *testing.T) {
	r := newTestServer(t, "http://localhost:3000")
	var health workerapi.WorkerHealthResponse
	r.call(t.Context(), t, "GET", "/health", "", &health)
	healthy := workerapi.WorkerHealth{
		Status: workerapi.WorkerHealthStatusOk, Version: "1.2.3", ContractVersion: "4.5.6",
		License:   workerapi.LicenseStateOk,
		Isolation: workerapi.IsolationSummary{Missing: []workerapi.IsolationPieceName{workerapi.MemoryLimit}},

		MissingScripts: &[]workerapi.WritingScript{workerapi.Emoji, workerapi.Thai},
		CloudContract:  workerapi.CloudContract{Expected: "7.8.9", Fit: workerapi.CloudContractFitUnheard},
	}
	if diff := cmp.Diff(healthy, health.Data); diff != "" {
		t.Errorf("health (-want +got):\n%s", diff)
	}
	var versions workerapi.BrowserVersionsResponse
	r.call(t.Context(), t, "GET", "/profiles/versions", "", &versions)
	want := workerapi.BrowserVersions{Versions: []sharedapi.BrowserVersion{156, 91}, Builds: []workerapi.BrowserBuild{
		{BrowserVersion: 156, FullVersion: "156.0.1.2", Engine: "chromium", Headful: true, Devtools: true, Extensions: true, Screencast: true},
		{BrowserVersion: 156, FullVersion: "156.0.1.1", Engine: "headless-shell", Screencast: true}, {BrowserVersion: 91, FullVersion: "91.0.0.0", Engine: "headless-shell", Screencast: true},
	}}
	if diff := cmp.Diff(want, versions.Data); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
}
