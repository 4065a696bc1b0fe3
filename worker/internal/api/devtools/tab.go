package devtools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/auth/access"
)

// maxMessage is the maximum size of a message, in bytes: a picture or document in
// base64.
const maxMessage = 88 << 20

// pollInterval is the time between retries of a command.
const pollInterval = 20 * time.Millisecond

var errCrashed = errors.New("the page has crashed")

// tab is a CDP connection to one page, for one call and not to be shared. It does not
// use the worker's control pipe, where sessions would get the launch's emulation
// settings.
type tab struct {
	id      string
	conn    *ws.Conn
	lastID  int
	onEvent func(method string, params json.RawMessage) // called for each event; optional
}

func openTab(ctx context.Context, browser access.Browser, id string) (*tab, error) {
	conn, err := ws.Dial(ctx, "ws://"+loopback(browser.DebugPort)+"/devtools/page/"+id, nil, ws.Options{ReadLimit: maxMessage, DialContext: browser.Dial})
	if err != nil {
		return nil, fmt.Errorf("connect to the page: %w", err)
	}
	return &tab{id: id, conn: conn}, nil
}

func (t *tab) close() { t.conn.CloseNow() }

// message is an answer or an event.
type message struct {
	ID     int
	Result json.RawMessage
	Error  *struct{ Message string }
	Method string
	Params json.RawMessage
}

// notAttached is Chromium's error between two documents of a page.
const notAttached = "Not attached to an active page"

// call sends a command, waits for its answer and decodes it into result unless that
// is nil.
func (t *tab) call(ctx context.Context, method string, params, result any) error {
	for {
		answer, err := t.exchange(ctx, method, params)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", method, err)
		case answer.Error != nil && answer.Error.Message == notAttached:
			if err := waitPollInterval(ctx); err != nil {
				return fmt.Errorf("%s: %w", method, err)
			}
			continue
		case answer.Error != nil:
			return fmt.Errorf("%s: %s", method, answer.Error.Message)
		case result == nil:
			return nil
		}
		if err := json.Unmarshal(answer.Result, result); err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		return nil
	}
}

// post sends a command without waiting for the answer.
func (t *tab) post(ctx context.Context, method string, params any) error {
	t.lastID++
	request, err := json.Marshal(struct {
		ID     int    `json:"id"`
		Method string `json:"method"`
		Params any    `json:"params,omitempty"`
	}{t.lastID, method, params})
	if err != nil {
		return err
	}
	if err := t.conn.Write(ctx, ws.Text, request); err != nil {
		return contextCause(ctx, err)
	}
	return nil
}

func (t *tab) exchange(ctx context.Context, method string, params any) (message, error) {
	if err := t.post(ctx, method, params); err != nil {
		return message{}, err
	}
	for {
		if m, err := t.next(ctx); err != nil || m.ID == t.lastID {
			return m, err
		}
	}
}

// waitPollInterval waits before a retry.
func waitPollInterval(ctx context.Context) error {
	select {
	case <-time.After(pollInterval):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// waitFor reads events until ok.
func (t *tab) waitFor(ctx context.Context, ok func() bool) error {
	for !ok() {
		if _, err := t.next(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (t *tab) next(ctx context.Context) (message, error) {
	var m message
	_, text, err := t.conn.Read(ctx)
	if err != nil {
		return m, contextCause(ctx, err)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, err
	}
	if m.Method == "Inspector.targetCrashed" {
		return m, errCrashed
	}
	if m.Method != "" && t.onEvent != nil {
		t.onEvent(m.Method, m.Params)
	}
	return m, nil
}

// contextCause returns the cause of ctx if ctx has ended: a connection closed by ctx
// fails with various errors.
func contextCause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
