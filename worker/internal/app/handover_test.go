package app_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// handovers calls the operations of handovers of one launch.
type handovers struct {
	*testWorker
	base, control string
}

func (r *testWorker) handovers(s workerapi.BrowserSession) handovers {
	return handovers{r, "/browsers/" + s.LaunchId.String(), token(*s.ViewUrl)}
}

// ask sends a request with the control token and checks the status of the answer.
func (h handovers) ask(t *testing.T, method, path, body string, status int, headers ...string) []byte {
	t.Helper()
	got, text := h.call(contracttest.AllowInvalidRequest(t.Context()), t, method, h.base+path, body, append([]string{"X-Svc-Token", h.control}, headers...)...)
	if got != status {
		t.Fatalf("%s %s: got %d %.300s, want %d", method, path, got, text, status)
	}
	return text
}

// state returns the handover of an answer.
func (h handovers) state(t *testing.T, method, path string) workerapi.Handover {
	t.Helper()
	return decode[workerapi.HandoverResponse](t, h.ask(t, method, path, "", 200)).Data
}

func (h handovers) start(t *testing.T) workerapi.StartedHandover {
	t.Helper()
	return decode[workerapi.StartedHandoverResponse](t, h.ask(t, "POST", "/handover", `{"reason":"Solve the captcha."}`, 201)).Data
}

func TestHandover_RoutesAnswer(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t), withMetricsToken)
	s := r.launch(t)
	h := r.handovers(s)
	for _, route := range [][2]string{{"GET", "/handover"}, {"DELETE", "/handover"}, {"POST", "/handover/done"}} {
		h.ask(t, route[0], route[1], "", 409)
	}
	for _, path := range []string{"/handover", "/handover/done"} {
		h.ask(t, "POST", path, `{"nonsense":1}`, 400)
		h.ask(t, "POST", path, `{}`, 415, "Content-Type", "text/plain")
		h.ask(t, "POST", path, strings.Repeat(" ", 1<<20+1), 413)
	}
	for _, body := range []string{
		``, `{}`, `{"reason":""}`, `{"reason":" "}`, `{"reason":"x","timeoutSeconds":0}`, `{"reason":"x","timeoutSeconds":43201}`,
		`{"reason":"` + strings.Repeat("x", 501) + `"}`,
	} {
		h.ask(t, "POST", "/handover", body, 400)
	}
	h.ask(t, "DELETE", "/handover", `{"a":1}`, 400)

	current := h.start(t)
	r.secrets = append(r.secrets, token(current.ViewUrl))
	if current.Status != "open" || current.Until.Sub(current.Since) != 10*time.Minute || current.Reason != "Solve the captcha." {
		t.Errorf("got %+v", current)
	}
	h.ask(t, "POST", "/handover", `{"reason":"Another."}`, 409)
	h.ask(t, "GET", "/handover?waitSeconds=61", "", 400)
	if got := h.state(t, "GET", "/handover"); got.Status != "open" || got.Seconds != nil {
		t.Errorf("got %+v", got)
	}
	listed := r.session(t, "GET", "/sessions/"+s.Id.String(), "").Handover
	if listed == nil || listed.Reason != current.Reason || !listed.Until.Equal(current.Until) {
		t.Errorf("the session has the handover %+v", listed)
	}
	r.awaitMetric(t, 1, "svc_worker_handovers_open")
	view := h.base + "/view?ct=" + token(current.ViewUrl)
	if status, _ := r.call(contracttest.AllowUndocumentedRoute(t.Context()), t, "GET", view, ""); status != 303 && status != 302 {
		t.Errorf("the view answers %d", status)
	}
	for _, route := range [][3]string{
		{"GET", "/handover", ""}, {"POST", "/handover", `{"reason":"x"}`}, {"DELETE", "/handover", ""}, {"POST", "/handover/done", ""},
	} {
		method, path, body := route[0], route[1], route[2]
		viewTicket := ticket.CookieName(s.LaunchId.String(), ticket.View) + "=" + r.viewTicket(t, s)
		for name, header := range map[string][2]string{"nothing": {"X-Svc-Token", "none"}, "a view ticket": {"Cookie", viewTicket}} {
			status, text := r.call(contracttest.AllowInvalidRequest(t.Context()), t, method, h.base+path, body, header[0], header[1])
			if status != 404 || string(text) != "unknown browser" {
				t.Errorf("%s %s with %s: got %d %s", method, path, name, status, text)
			}
		}
	}

	waited := make(chan workerapi.Handover, 1)
	go func() { waited <- h.state(t, "GET", "/handover?waitSeconds=60") }()
	done := decode[workerapi.HandoverResponse](t, h.ask(t, "POST", "/handover/done", `{"note":"Solved."}`, 200)).Data
	if got := <-waited; done.Status != "done" || got.Status != "done" || *done.Note != "Solved." || *got.Seconds != *done.Seconds {
		t.Errorf("got %+v and %+v", done, got)
	}
	h.start(t)
	if got := h.state(t, "DELETE", "/handover"); got.Status != "canceled" || got.Note != nil {
		t.Errorf("got %+v", got)
	}
	h.ask(t, "POST", "/handover", `{"reason":"Be quick.","timeoutSeconds":1}`, 201)
	if got := h.state(t, "GET", "/handover?waitSeconds=60"); got.Status != "timeout" || *got.Seconds < 1 {
		t.Errorf("got %+v", got)
	}
	h.start(t)
	r.session(t, "DELETE", "/sessions/"+s.Id.String(), "")
	h.ask(t, "GET", "/handover", "", 404)
	for _, outcome := range []string{"done", "canceled", "timeout", "ended"} {
		r.awaitMetric(t, 1, "svc_worker_handovers_total", "outcome", outcome)
	}
	r.awaitMetric(t, 0, "svc_worker_handovers_open")
	if log := r.log.String(); !strings.Contains(log, `msg="handover ended"`) || strings.Contains(log, "captcha") {
		t.Error("the log has no outcome, or the reason")
	}
}

// heldCommand is a command that must not be answered during a handover.
type heldCommand struct {
	name   string
	answer chan error
}

// TestHandover_HoldsEveryClient starts a handover from one connection of a browser that
// has a client of each kind, and lets a person end it.
func TestHandover_HoldsEveryClient(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t))
	d := r.drive(t, map[string]any{"webSocketUrl": true, "svc:options": map[string]any{"profileId": r.cloud.Profile(r.version)}})
	own, _ := d.capabilities["svc:session"].(map[string]any)
	s := r.session(t, "GET", "/sessions/"+own["sessionId"].(string), "")
	h := r.handovers(s)
	d.do(t, "POST", "/url", map[string]any{"url": servePageFor(t)})
	_, path, _ := strings.Cut(*s.WebSocketDebuggerUrl, h.base)
	path, _, _ = strings.Cut(path, "?")

	// Each has connected before.
	dial := func(address string) *cdp.Conn {
		t.Helper()
		socket, err := ws.Dial(t.Context(), address, nil, ws.Options{ReadLimit: -1})
		if err != nil {
			t.Fatal(err)
		}
		conn := cdp.OverWebSocket(socket)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	asking := dial(*s.WebSocketDebuggerUrl)
	conns := map[string]*cdp.Conn{
		"the asking connection":   asking,
		"another connection":      dial(*s.WebSocketDebuggerUrl),
		"a resumable connection":  dial(*s.WebSocketDebuggerUrl + "&resume=0&client=a"),
		"the debugging port":      dial(fmt.Sprintf("ws://127.0.0.1:%d%s", *s.DebugPort, path)),
		"the socket of WebDriver": dial("ws" + strings.TrimPrefix(r.url, "http") + d.base + "/se/cdp"),
		"the BiDi socket":         dial("ws" + strings.TrimPrefix(r.url, "http") + d.base),
	}
	for name, conn := range conns {
		if err := conn.Call(t.Context(), "", probe(name), map[string]any{}, nil); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	outcome := make(chan error, 1)
	var result struct {
		Outcome, Note string
		Seconds       float64
	}
	go func() {
		outcome <- asking.Call(t.Context(), "", "Svc.requestHuman", map[string]any{"reason": "Pay.", "timeoutSeconds": 60}, &result)
	}()
	testenv.Eventually(t, "an open handover", func() bool {
		return r.session(t, "GET", "/sessions/"+s.Id.String(), "").Handover != nil
	})

	var waiting []heldCommand
	send := func(name string, do func() error) {
		command := heldCommand{name, make(chan error, 1)}
		waiting = append(waiting, command)
		go func() { command.answer <- do() }()
	}
	for name, conn := range conns {
		send(name, func() error { return conn.Call(t.Context(), "", probe(name), map[string]any{}, nil) })
	}
	send("a WebDriver command", func() error {
		status, text := d.try(t, "POST", "/execute/sync", `{"script":"document.title = 'changed'","args":[]}`)
		if status != 200 {
			return fmt.Errorf("%d %s", status, text)
		}
		return nil
	})
	second := dial(*s.WebSocketDebuggerUrl)
	if err := second.Call(t.Context(), "", "Svc.requestHuman", map[string]any{"reason": "Me too."}, nil); err == nil || !strings.Contains(err.Error(), "already open") {
		t.Errorf("a second request: %v", err)
	}
	for range 5 { // other requests are answered meanwhile
		if list := string(h.ask(t, "GET", "/json/list", "", 200)); strings.Contains(list, "changed") {
			t.Fatal("a command of WebDriver had an effect")
		}
		h.ask(t, "GET", "/screenshot?width=320&format=jpeg", "", 200)
	}
	for _, command := range waiting {
		select {
		case err := <-command.answer:
			t.Errorf("%s was answered: %v", command.name, err)
		default:
		}
	}
	h.ask(t, "POST", "/handover/done", `{"note":"Paid."}`, 200)
	if err := <-outcome; err != nil || result.Outcome != "done" || result.Note != "Paid." || result.Seconds <= 0 {
		t.Errorf("got %+v, %v", result, err)
	}
	for _, command := range waiting {
		if err := <-command.answer; err != nil {
			t.Errorf("%s: %v", command.name, err)
		}
	}
	if title := d.do(t, "GET", "/title", nil); title != "changed" {
		t.Errorf("got the title %v", title)
	}
}

// probe returns a command for a socket.
func probe(name string) string {
	if strings.Contains(name, "BiDi") {
		return "session.status"
	}
	return "Browser.getVersion"
}

func TestHandover_LaunchSocketHandsOver(t *testing.T) {
	fake := cloudtest.New(t)
	r := startTestWorker(t, fake)
	socket, err := ws.Dial(t.Context(), "ws"+strings.TrimPrefix(r.url, "http")+"/launch?profileId="+fake.Profile(r.version).String(),
		http.Header{"X-Api-Key": {cloudtest.Key}}, ws.Options{ReadLimit: -1})
	if err != nil {
		t.Fatal(err)
	}
	conn := cdp.OverWebSocket(socket)
	defer func() { _ = conn.Close() }()
	call := func(method string, params, into any) error {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		return conn.Call(ctx, "", method, params, into)
	}
	var info struct{ ControlToken, LaunchID string }
	if err := call("Svc.getSessionInfo", nil, &info); err != nil {
		t.Fatal(err)
	}
	human, err := conn.Send(t.Context(), "", "Svc.requestHuman", map[string]any{"reason": "Sign in."})
	if err != nil {
		t.Fatal(err)
	}
	version, err := conn.Send(t.Context(), "", "Browser.getVersion", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := call("Svc.getSessionInfo", nil, &info); err != nil { // not held
		t.Fatal(err)
	}
	if err := call("Svc.cancelHuman", nil, nil); err != nil {
		t.Fatal(err)
	}
	var result struct{ Outcome string }
	if err := human.Wait(t.Context(), &result); err != nil || result.Outcome != "canceled" {
		t.Errorf("got %+v, %v", result, err)
	}
	if err := version.Wait(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// TestHandover_KeepsSession checks that a session is not idle during a handover, and
// that its maximum duration counts.
func TestHandover_KeepsSession(t *testing.T) {
	fake := cloudtest.New(t)
	r := startTestWorker(t, fake)
	for _, tc := range []struct {
		limits, reason string
		least          time.Duration // until the end
	}{
		{`{"idleTimeoutSeconds":1}`, "idle", 3 * time.Second},
		{`{"idleTimeoutSeconds":1,"maxDurationSeconds":2}`, "max_duration", time.Second},
	} {
		s := r.session(t, "POST", "/sessions/profile", fmt.Sprintf(`{"profileId":%q,"browser":%s}`, fake.Profile(r.version), tc.limits))
		start := time.Now()
		r.handovers(s).ask(t, "POST", "/handover", `{"reason":"Look.","timeoutSeconds":3}`, 201)
		var ended workerapi.BrowserSession
		testenv.Eventually(t, "the end of the session", func() bool {
			ended = r.session(t, "GET", "/sessions/"+s.Id.String(), "")
			return ended.Status != "running"
		})
		if took := time.Since(start); string(*ended.EndReason) != tc.reason || took < tc.least {
			t.Errorf("%s: ended by %s after %s", tc.limits, *ended.EndReason, took)
		}
	}
}
