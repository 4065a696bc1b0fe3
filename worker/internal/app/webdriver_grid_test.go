package app_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/app"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// gridStatus is what the tests read of the status in the form of Selenium Grid.
type gridStatus struct {
	Ready bool
	Nodes []struct {
		Availability string
		MaxSessions  int
		Slots        []struct {
			Session *struct {
				SessionID string
				Start     time.Time
			}
		}
	}
}

func (r *testWorker) gridStatus(t *testing.T, headers ...string) gridStatus {
	t.Helper()
	return decode[struct{ Value gridStatus }](t, r.must(t, "GET", "/wd/hub/status", headers...)).Value
}

func TestWebDriver_HonorsGridCapabilities(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t), withFiles, func(c *app.Config) { c.MaxSessions = 2 })
	d := r.drive(t, map[string]any{
		"browserName": "chrome", "se:name": "a checkout", "se:timeZone": "Asia/Tokyo", "se:screenResolution": "1600x900x24", "se:recordVideo": true,
		"webSocketUrl": true, "se:noVncPort": 7900,
	})
	own, _ := d.capabilities["svc:session"].(map[string]any)
	id, _ := own["sessionId"].(string)
	if s := r.session(t, "GET", "/sessions/"+id, ""); s.Name == nil || *s.Name != "a checkout" || s.Recording == nil {
		t.Errorf("the session has the name %v and the recording %v", s.Name, s.Recording)
	}
	got := d.script(t, "return [Intl.DateTimeFormat().resolvedOptions().timeZone, screen.width, screen.height].join()")
	if got != "Asia/Tokyo,1600,900" {
		t.Errorf("the page has %v", got)
	}
	if d.capabilities["se:bidi"] == nil || d.capabilities["se:bidi"] != d.capabilities["webSocketUrl"] {
		t.Errorf("se:bidi is %v", d.capabilities["se:bidi"])
	}
	assertPicture(t, d.capabilities["se:vnc"])
	open := r.gridStatus(t)
	if !open.Ready || len(open.Nodes) > 0 {
		t.Errorf("without a key: %+v", open)
	}
	if other := r.gridStatus(t, "X-API-Key", callersKey); len(other.Nodes) > 0 {
		t.Errorf("an organization key sees %+v", other)
	}
	nodes := r.gridStatus(t, "X-API-Key", workerKey).Nodes
	if len(nodes) != 1 || nodes[0].Availability != "UP" || nodes[0].MaxSessions != 2 || len(nodes[0].Slots) != 2 {
		t.Fatalf("the worker key sees %+v", nodes)
	}
	if s := nodes[0].Slots[0].Session; s == nil || s.SessionID != id || nodes[0].Slots[1].Session != nil {
		t.Errorf("the slots are %+v", nodes[0].Slots)
	}
	d.do(t, "DELETE", "", nil)
}

// assertPicture fails unless an address is a WebSocket that speaks RFB.
func assertPicture(t *testing.T, capability any) {
	t.Helper()
	address, _ := capability.(string)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := ws.Dial(ctx, address, nil, ws.Options{})
	if err != nil {
		t.Fatalf("se:vnc: %v", err)
	}
	defer conn.CloseNow()
	if _, version, err := conn.Read(ctx); err != nil || !strings.HasPrefix(string(version), "RFB 003.") {
		t.Errorf("se:vnc begins with %q, %v", version, err)
	}
}

func TestWebDriver_RefusesGridCapabilities(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t))
	for name, capabilities := range map[string]map[string]any{
		"se:timeZone":         {"se:timeZone": "Mars/Olympus"},
		"se:screenResolution": {"se:screenResolution": "99999x1"},
		"se:name":             {"se:name": strings.Repeat("x", 1000)},
		"se:recordVideo":      {"se:recordVideo": "perhaps"},
	} {
		status, text := r.newSession(t, capabilities, "X-API-Key", workerKey)
		assertError(t, name, status, text, 400, "invalid argument", name)
	}
}

// TestWebDriver_WaitsForSlot checks that a session waits for a slot, and that a client that
// disconnects takes none.
func TestWebDriver_WaitsForSlot(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t), withMetricsToken, func(c *app.Config) { c.MaxSessions = 1 })
	first := r.drive(t, nil)
	leaving, leave := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() { gone <- r.postSession(leaving) }()
	r.awaitMetric(t, 1, "svc_worker_queue_length")
	leave()
	if err := <-gone; err == nil {
		t.Error("a session was created although the machine is full")
	}
	r.awaitMetric(t, 0, "svc_worker_queue_length")
	created := make(chan *webDriverSession, 1)
	go func() { created <- r.drive(t, nil) }()
	r.awaitMetric(t, 1, "svc_worker_queue_length")
	first.do(t, "DELETE", "", nil)
	second := <-created
	second.do(t, "DELETE", "", nil)
	status, text := r.newSession(t, map[string]any{"svc:options": map[string]any{"waitSeconds": 0}}, "X-API-Key", workerKey)
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	third := decode[struct{ Value struct{ SessionID string } }](t, text).Value.SessionID
	r.secrets = append(r.secrets, third)
	status, text = r.newSession(t, map[string]any{"svc:options": map[string]any{"waitSeconds": 0}}, "X-API-Key", workerKey)
	assertError(t, "without waiting", status, text, 500, "session not created", "")
	(&webDriverSession{r, "/wd/hub/session/" + third, nil}).do(t, "DELETE", "", nil)
}

// postSession sends a new session command until ctx ends.
func (r *testWorker) postSession(ctx context.Context) error {
	body, _ := json.Marshal(map[string]any{"capabilities": map[string]any{}}) // of literals
	request, err := http.NewRequestWithContext(contracttest.AllowInvalidRequest(ctx), http.MethodPost, r.url+"/wd/hub/session", strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	request.Header.Set("X-API-Key", workerKey)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}
