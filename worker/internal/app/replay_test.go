package app_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/draw"
	"image/png"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/app"
	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// visit opens a page in the first tab, and returns its session and its pixels when it is done.
func visit(t *testing.T, conn *cdp.Conn, address string) (session string, pixels *image.RGBA) {
	t.Helper()
	session = attachFirst(t, conn)
	if err := conn.Call(t.Context(), session, "Page.navigate", map[string]any{"url": address}, nil); err != nil {
		t.Fatal(err)
	}
	title := ""
	testenv.Eventually(t, "the end of "+address, func() bool {
		var got struct{ Result struct{ Value string } }
		err := conn.Call(t.Context(), session, "Runtime.evaluate", map[string]any{"expression": "document.title"}, &got)
		title = got.Result.Value
		return err == nil && (title == "done" || strings.HasPrefix(title, "failed"))
	})
	if title != "done" {
		t.Errorf("%s: %s", address, title)
	}
	evaluate(t, conn, session, `document.fonts.ready.then(() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))).then(() => '')`)
	var shot struct{ Data []byte }
	if err := conn.Call(t.Context(), session, "Page.captureScreenshot", map[string]any{"format": "png"}, &shot); err != nil {
		t.Fatal(err)
	}
	decoded, err := png.Decode(bytes.NewReader(shot.Data))
	if err != nil {
		t.Fatal(err)
	}
	pixels = image.NewRGBA(decoded.Bounds())
	draw.Draw(pixels, pixels.Bounds(), decoded, decoded.Bounds().Min, draw.Src)
	return session, pixels
}

// attachFirst returns a session of the first tab, which a recording follows from its start.
func attachFirst(t *testing.T, conn *cdp.Conn) string {
	t.Helper()
	var listed struct {
		TargetInfos []struct{ TargetID, Type string }
	}
	if err := conn.Call(t.Context(), "", "Target.getTargets", map[string]any{}, &listed); err != nil {
		t.Fatal(err)
	}
	var attached struct{ SessionID string }
	for _, target := range listed.TargetInfos {
		if target.Type != "page" {
			continue
		}
		if err := conn.Call(t.Context(), "", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached); err != nil {
			t.Fatal(err)
		}
	}
	return attached.SessionID
}

// recordHAR records a session that visits a page and evaluates expressions there. It returns the id of the session, the pixels of
// the page, and the values.
func (r *testWorker) recordHAR(t *testing.T, address string, expressions ...string) (id uuid.UUID, pixels *image.RGBA, values []string) {
	t.Helper()
	s := r.session(t, "POST", "/sessions/profile", `{"spec":{},"browser":{"record":["har"]}}`)
	conn := connectCDP(t, *s.WebSocketDebuggerUrl, nil)
	page, pixels := visit(t, conn, address)
	for _, expression := range expressions {
		values = append(values, evaluate(t, conn, page, expression))
	}
	_ = conn.Close()
	r.session(t, "DELETE", "/sessions/"+s.Id.String(), "")
	if got := r.awaitRecording(t, s); got.State != workerapi.RecordingStateComplete {
		t.Errorf("the recording of %s: %+v", address, got)
	}
	return s.Id, pixels, values
}

// replay launches a browser that replays a session.
func (r *testWorker) replay(t *testing.T, recorded uuid.UUID, mode string) workerapi.BrowserSession {
	t.Helper()
	return r.session(t, "POST", "/sessions/profile", fmt.Sprintf(`{"spec":{},"browser":{"replay":{"har":%q,"mode":%q}}}`, recorded, mode))
}

// notReplayed returns how many requests to the site each rule of the level replay has denied. Complete browsers call services of
// Chromium, too.
func (r *testWorker) notReplayed(t *testing.T, s workerapi.BrowserSession) map[string]int64 {
	t.Helper()
	counts := map[string]int64{}
	for _, host := range r.network(t, "/browsers/"+s.LaunchId.String()).Items {
		for _, denial := range host.Denied {
			if denial.Level == "replay" && host.Host == "127.0.0.1" {
				counts[denial.Rule] += denial.Count
			}
		}
	}
	return counts
}

// TestReplay_ShowsSamePixels records a session for each page, closes the site, and replays the sessions.
func TestReplay_ShowsSamePixels(t *testing.T) {
	r, site := startTestWorker(t, cloudtest.New(t), withFiles), newReplayedSite(t)
	type recorded struct {
		id     uuid.UUID
		pixels *image.RGBA
	}
	sessions := map[string]recorded{}
	for name := range replayedPages {
		id, pixels, _ := r.recordHAR(t, site.page(name))
		sessions[name] = recorded{id, pixels}
	}
	site.Close()
	for _, name := range slices.Sorted(maps.Keys(sessions)) {
		t.Run(name, func(t *testing.T) {
			s := r.replay(t, sessions[name].id, "strict")
			_, pixels := visit(t, connectCDP(t, *s.WebSocketDebuggerUrl, nil), site.page(name))
			if want := sessions[name].pixels; !pixels.Bounds().Eq(want.Bounds()) || !bytes.Equal(pixels.Pix, want.Pix) {
				t.Error("the picture differs from the recorded one")
			}
			want := map[string]int64{}
			if rule := replayedPages[name].lost; rule != "" {
				want[rule] = 1
			}
			if got := r.notReplayed(t, s); !maps.Equal(got, want) {
				t.Errorf("not replayed: %v, want %v", got, want)
			}
			if got := r.network(t, "/browsers/"+s.LaunchId.String()).Totals; got.Connections != 0 || got.BytesSent != 0 || got.BytesReceived != 0 {
				t.Errorf("a strict replay has reached the network: %+v", got)
			}
			r.session(t, "DELETE", "/sessions/"+s.Id.String(), "")
		})
	}
}

// The replies of pages that request something. Random answers differ if they are not replayed.
const (
	fetchOne  = `get('/random?q=1').catch(e => e.message)`
	fetchHuge = `get('/huge').then(text => '' + text.length, e => e.message)`
	fetchNew  = `get('/random?q=2').catch(e => e.message)`
)

// TestReplay_StrictFailsWithoutResponse requests what was not recorded, and what a rule of the launch denies.
func TestReplay_StrictFailsWithoutResponse(t *testing.T) {
	r, site := startTestWorker(t, cloudtest.New(t), withFiles, func(c *app.Config) { c.WarmPool = []int{1} }), newReplayedSite(t)
	recorded, _, want := r.recordHAR(t, site.page("text"), fetchOne, fetchHuge)
	before := site.requests.Load()
	s := r.session(t, "POST", "/sessions/profile", fmt.Sprintf(
		`{"spec":{},"browser":{"replay":{"har":%q},"network":{"methods":{"readOnly":true}}}}`, recorded)) // strict by default
	conn := connectCDP(t, *s.WebSocketDebuggerUrl, nil)
	page, _ := visit(t, conn, site.page("text"))
	for expression, want := range map[string]string{
		fetchOne: want[0], fetchHuge: "Failed to fetch", fetchNew: "Failed to fetch",
		`get('/random?q=1', {method: 'POST'}).catch(e => e.message)`:                                             "Failed to fetch",
		`new Promise(done => new WebSocket('ws://' + location.host + '/socket').onclose = () => done('closed'))`: "closed",
	} {
		if got := evaluate(t, conn, page, expression); got != want {
			t.Errorf("%s: %q, want %q", expression, got, want)
		}
	}
	var navigated struct{ ErrorText string }
	if err := conn.Call(t.Context(), page, "Page.navigate", map[string]any{"url": site.URL + "/frame"}, &navigated); err != nil || navigated.ErrorText != "net::ERR_BLOCKED_BY_CLIENT" {
		t.Errorf("a page that was not recorded: %+v (%v)", navigated, err)
	}
	testenv.Eventually(t, "the notice about the page", func() bool {
		return strings.Contains(evaluate(t, conn, page, "document.body.innerText"), "the rule unrecorded of the replay")
	})
	if got, want := r.notReplayed(t, s), map[string]int64{"unrecorded": 2, "incomplete": 1, "connect.allow": 1}; !maps.Equal(got, want) {
		t.Errorf("not replayed: %v, want %v", got, want)
	}
	if got := r.network(t, "/browsers/"+s.LaunchId.String()).Totals; got.Connections != 0 || got.Denied != 5 {
		t.Errorf("the network: %+v", got)
	}
	if got := site.requests.Load() - before; got != 0 {
		t.Errorf("%d requests have reached the site", got)
	}
}

// TestReplay_FallbackSendsTheRest replays beside the site, with a profile whose data is kept, and beside the interception of a client.
func TestReplay_FallbackSendsTheRest(t *testing.T) {
	r, site := startTestWorker(t, cloudtest.New(t), withFiles, withCompleteBrowsers), newReplayedSite(t)
	recorded, pixels, want := r.recordHAR(t, site.page("images"), fetchOne, fetchHuge)
	profile := r.cloud.Profile(r.version, func(c *cloudapi.ProfileConfig) { c.Persist = true })
	for _, target := range []string{`"spec":{}`, fmt.Sprintf(`"profileId":%q`, profile)} {
		s := r.session(t, "POST", "/sessions/profile", fmt.Sprintf(`{%s,"browser":{"replay":{"har":%q,"mode":"fallback"}}}`, target, recorded))
		conn := connectCDP(t, *s.WebSocketDebuggerUrl, nil)
		page, picture := visit(t, conn, site.page("images"))
		if !bytes.Equal(picture.Pix, pixels.Pix) {
			t.Errorf("%s: the picture differs from the recorded one", target)
		}
		for expression, want := range map[string]string{fetchOne: want[0], fetchHuge: want[1]} {
			if got := evaluate(t, conn, page, expression); got != want {
				t.Errorf("%s: %s: %q, want %q", target, expression, got, want)
			}
		}
		if got := evaluate(t, conn, page, fetchNew); !strings.HasPrefix(got, "random") || got == want[0] {
			t.Errorf("%s: what was not recorded: %q", target, got)
		}
		hosts := r.network(t, "/browsers/"+s.LaunchId.String()).Items // complete browsers call services of Chromium, too
		if i := slices.IndexFunc(hosts, func(h sharedapi.NetworkHost) bool { return h.Host == "127.0.0.1" }); i < 0 || hosts[i].Connections != 2 || len(hosts[i].Denied) > 0 {
			t.Errorf("%s: the network: %+v", target, hosts)
		}
		interceptOwn(t, conn, page, want[0])
		_ = conn.Close()
		r.session(t, "DELETE", "/sessions/"+s.Id.String(), "")
	}
}

// interceptOwn answers one request as a client, and continues others to the replay.
func interceptOwn(t *testing.T, conn *cdp.Conn, page, recorded string) {
	t.Helper()
	events := conn.Subscribe(64, "Fetch.requestPaused")
	defer events.Close()
	if err := conn.Call(t.Context(), page, "Fetch.enable", map[string]any{}, nil); err != nil {
		t.Fatal(err)
	}
	for expression, want := range map[string]string{fetchOne: recorded, `get('/own').catch(e => e.message)`: "of the client"} {
		answered := make(chan error, 1)
		go func() {
			event := <-events.Events()
			method, params := "Fetch.continueRequest", map[string]any{"requestId": pausedID(event)}
			if want == "of the client" {
				method, params["responseCode"], params["body"] = "Fetch.fulfillRequest", 200, []byte(want)
			}
			answered <- conn.Call(t.Context(), event.SessionID, method, params, nil)
		}()
		if got := evaluate(t, conn, page, expression); got != want {
			t.Errorf("%s beside the interception of a client: %q, want %q", expression, got, want)
		}
		if err := <-answered; err != nil {
			t.Error(err)
		}
	}
}

func pausedID(event cdp.Event) string {
	var paused struct{ RequestID string }
	_ = json.Unmarshal(event.Params, &paused) // without an id, its answer fails
	return paused.RequestID
}

// TestReplay_NeedsRecordingOfCaller launches with sessions that cannot be replayed, and with keys that cannot read recordings.
func TestReplay_NeedsRecordingOfCaller(t *testing.T) {
	const others = "svc_the-key-of-a-caller"
	r, site := startTestWorker(t, cloudtest.New(t), withFiles), newReplayedSite(t)
	r.cloud.AddKey(others)
	recorded, _, _ := r.recordHAR(t, site.page("text"))
	timeline := r.session(t, "POST", "/sessions/profile", `{"spec":{},"browser":{"record":["events"]}}`)
	plain := r.session(t, "POST", "/sessions/profile", `{"spec":{}}`)
	check := func(name, code string, status int, text []byte) {
		t.Helper()
		got := decode[failure](t, text).Error.Details
		if status != 400 || len(got) != 1 || !strings.HasPrefix(got[0].Field, "browser.replay") || got[0].Code != code {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	for name, c := range map[string]struct{ replay, code string }{
		"an unknown session":      {fmt.Sprintf(`{"har":%q}`, uuid.New()), "RESOURCE_NOT_FOUND"},
		"an unrecorded session":   {fmt.Sprintf(`{"har":%q}`, plain.Id), "RESOURCE_NOT_FOUND"},
		"a session without a har": {fmt.Sprintf(`{"har":%q}`, timeline.Id), "CUSTOM"},
		"no id":                   {`{"har":"x"}`, "INVALID_FORMAT"},
		"nothing":                 {`{}`, "REQUIRED"},
		"an unknown mode":         {fmt.Sprintf(`{"har":%q,"mode":"loose"}`, recorded), "INVALID_ENUM_VALUE"},
		"an unknown field":        {fmt.Sprintf(`{"har":%q,"content":{}}`, recorded), "UNRECOGNIZED_KEY"},
	} {
		status, text := r.call(contracttest.AllowInvalidRequest(t.Context()), t, "POST", "/sessions/profile", `{"spec":{},"browser":{"replay":`+c.replay+`}}`, "X-API-Key", workerKey)
		check(name, c.code, status, text)
	}
	for _, id := range []uuid.UUID{recorded, uuid.New()} { // the answer does not tell whether it exists
		for _, key := range []string{others, cloudtest.Key} {
			env := fmt.Sprintf(`{"SVC_KEY":%q,"spec":{},"browser":{"replay":{"har":%q}}}`, key, id)
			status, body := r.upgrade(t, "/launch?env="+base64.RawURLEncoding.EncodeToString([]byte(env)), nil)
			check("an organization key", "CUSTOM", status, []byte(body))
		}
	}
}

// TestReplay_AcceptsWorkerKeyOfLaunchSocket launches over /launch where the worker key is the organization key.
func TestReplay_AcceptsWorkerKeyOfLaunchSocket(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t), withFiles, func(c *app.Config) { c.WorkerKey = "" })
	env := fmt.Sprintf(`{"SVC_KEY":%q,"spec":{},"browser":{"replay":{"har":%q}}}`, cloudtest.Key, uuid.New())
	status, body := r.upgrade(t, "/launch?env="+base64.RawURLEncoding.EncodeToString([]byte(env)), nil)
	if got := decode[failure](t, []byte(body)).Error.Details; status != 400 || len(got) != 1 || got[0].Code != "RESOURCE_NOT_FOUND" {
		t.Errorf("got %d %s", status, body)
	}
}
