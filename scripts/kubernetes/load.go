package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/browser-svc/svc/shared/ws"
)

const (
	launchTimeout = 3 * time.Minute
	answerTimeout = 30 * time.Second
)

// fleet is the workers behind the edge, as a client outside of the cluster sees them.
type fleet struct {
	edge, key string
	client    *http.Client
}

// session is a running browser.
type session struct {
	ID       string
	Endpoint string `json:"webSocketDebuggerUrl"`
	Status   string
	worker   string // its WORKER_ID, from the path of the endpoint
}

// call sends a request and returns the member data of the response.
func (f fleet) call(ctx context.Context, method, address string, body any, want int, data any) error {
	var content bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&content).Encode(body); err != nil {
			return err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, address, &content)
	if err != nil {
		return err
	}
	request.Header.Set("X-API-Key", f.key)
	request.Header.Set("Content-Type", "application/json")
	response, err := f.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != want {
		return fmt.Errorf("%s %s returned %d: %.300s", method, request.URL.Path, response.StatusCode, text)
	}
	return json.Unmarshal(text, &struct{ Data any }{data})
}

// launch launches a browser through the edge.
func (f fleet) launch(ctx context.Context) (session, error) {
	ctx, cancel := context.WithTimeout(ctx, launchTimeout)
	defer cancel()
	var s session
	body := map[string]any{"spec": map[string]any{}, "browser": map[string]any{"headless": true}}
	if err := f.call(ctx, http.MethodPost, f.edge+"/sessions/profile", body, http.StatusCreated, &s); err != nil {
		return s, fmt.Errorf("launch: %w", err)
	}
	endpoint, err := url.Parse(s.Endpoint)
	if err != nil {
		return s, err
	}
	parts := strings.SplitN(endpoint.Path, "/", 4)
	if len(parts) < 4 || parts[1] != "w" {
		return s, fmt.Errorf("launch: the path %s does not begin with /w/<WORKER_ID>", endpoint.Path)
	}
	s.worker = parts[2]
	return s, nil
}

// end ends a session, which must still run.
func (f fleet) end(ctx context.Context, s session) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	var ended session
	if err := f.call(ctx, http.MethodDelete, f.edge+"/w/"+s.worker+"/sessions/"+s.ID, nil, http.StatusOK, &ended); err != nil {
		return fmt.Errorf("end the session on %s: %w", s.worker, err)
	}
	if ended.Status != "killed" {
		return fmt.Errorf("the session on %s ended before its time: %s", s.worker, ended.Status)
	}
	return nil
}

// launchOn launches and ends browsers until one of these workers launched one, for at most ten minutes. It returns how many
// launches failed until then.
func (f fleet) launchOn(ctx context.Context, workers []string) (int, error) {
	failed := 0
	err := retry(ctx, 10*time.Minute, "a launch on one of "+strings.Join(workers, ", "), func(ctx context.Context) error {
		s, err := f.launch(ctx)
		if err != nil {
			failed++
			return err
		}
		if err := f.end(ctx, s); err != nil {
			return err
		}
		if !slices.Contains(workers, s.worker) {
			return fmt.Errorf("the last launch was on %s", s.worker)
		}
		return nil
	})
	return failed, err
}

// use asks the browser of the session for its version each second until done, and then ends it.
func (f fleet) use(ctx context.Context, s session, done <-chan struct{}) error {
	dial, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	conn, err := ws.Dial(dial, s.Endpoint, nil, ws.Options{})
	if err != nil {
		return fmt.Errorf("connect to the browser on %s: %w", s.worker, err)
	}
	defer conn.CloseNow()
	for id := 1; ; id++ {
		if err := ask(ctx, conn, id); err != nil {
			return fmt.Errorf("session on %s lost after %d answers: %w", s.worker, id-1, err)
		}
		select {
		case <-done:
			return f.end(ctx, s)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

func ask(ctx context.Context, conn *ws.Conn, id int) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if err := conn.Write(ctx, ws.Text, fmt.Appendf(nil, `{"id": %d, "method": "Browser.getVersion"}`, id)); err != nil {
		return err
	}
	for {
		_, text, err := conn.Read(ctx)
		if err != nil {
			return err
		}
		var answer struct{ ID int }
		if err := json.Unmarshal(text, &answer); err != nil {
			return err
		}
		if answer.ID == id {
			return nil
		}
	}
}

// open opens a page with playwright in the browser of the session.
func (f fleet) open(ctx context.Context, s session, page, roots string) error {
	ctx, cancel := context.WithTimeout(ctx, launchTimeout)
	defer cancel()
	input, err := json.Marshal(map[string]any{"endpoint": s.Endpoint, "url": page, "expression": "document.body.innerText"})
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, "node", "scripts/e2e/clients/playwright.mjs")
	command.Stdin, command.Env = bytes.NewReader(input), append(os.Environ(), "NODE_EXTRA_CA_CERTS="+roots)
	text, err := outputOf(command)
	if err != nil {
		return err
	}
	var result struct {
		Title, Value string
		Screenshot   int
	}
	if err := json.Unmarshal([]byte(text), &result); err != nil {
		return err
	}
	if result.Title != "A page" || result.Value != "text" || result.Screenshot < 1000 {
		return fmt.Errorf("playwright saw %s", text)
	}
	return nil
}

// The load launches a browser each interval and uses it for its life, which keeps about ten browsers running.
const (
	interval = 3 * time.Second
	life     = 30 * time.Second
)

// load launches browsers, uses each for its life, and ends it.
type load struct {
	tally
	stop    context.CancelFunc
	running sync.WaitGroup
}

func (f fleet) startLoad(ctx context.Context) *load {
	l := &load{}
	launching, stop := context.WithCancel(ctx)
	l.stop = stop
	l.running.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			l.running.Go(func() { l.runSession(ctx, f) })
			select {
			case <-launching.Done():
				return
			case <-ticker.C:
			}
		}
	})
	return l
}

func (l *load) runSession(ctx context.Context, f fleet) {
	began := time.Now()
	s, err := f.launch(ctx)
	if err != nil {
		l.failed(&l.failures, fmt.Errorf("%s: %w", time.Now().Format(time.TimeOnly), err))
		return
	}
	l.launched(s, time.Since(began))
	done := make(chan struct{})
	time.AfterFunc(life, func() { close(done) })
	if err := f.use(ctx, s, done); err != nil {
		l.failed(&l.lost, fmt.Errorf("%s: %w", time.Now().Format(time.TimeOnly), err))
	}
}

// finish ends the load after the lives of its sessions and reports the figures.
func (l *load) finish(what string) error {
	l.stop()
	l.running.Wait()
	return l.result(what)
}

// heldSessions are sessions that continue until release.
type heldSessions struct {
	tally
	done    chan struct{}
	running sync.WaitGroup
}

// holdSessions launches sessions and uses them until release.
func (f fleet) holdSessions(ctx context.Context, count int) *heldSessions {
	h := &heldSessions{done: make(chan struct{})}
	for range count {
		began := time.Now()
		s, err := f.launch(ctx)
		if err != nil {
			h.failed(&h.failures, err)
			continue
		}
		h.launched(s, time.Since(began))
		h.running.Go(func() {
			if err := f.use(ctx, s, h.done); err != nil {
				h.failed(&h.lost, err)
			}
		})
	}
	return h
}

func (h *heldSessions) release(what string) error {
	close(h.done)
	h.running.Wait()
	return h.result(what)
}
