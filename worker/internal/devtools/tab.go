package devtools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/browser-svc/svc/shared/ws"
)

// maxMessage bounds what a page may answer, in bytes: a picture or a document
// in base64.
const maxMessage = 88 << 20

var errCrashed = errors.New("the page has crashed")

// tab is a CDP connection to one page, for one call of a helper and not to be
// shared: sessions on the worker's control pipe would be given the launch's
// emulation settings.
type tab struct {
	id     string
	conn   *ws.Conn
	lastID int
	notice func(method string, params json.RawMessage) // is told of events, when set
}

func openTab(ctx context.Context, port int, id string) (*tab, error) {
	conn, err := ws.Dial(ctx, "ws://"+loopback(port)+"/devtools/page/"+id, nil, ws.Options{ReadLimit: maxMessage})
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

// call sends a command and waits for its answer, which result, unless nil, takes.
func (t *tab) call(ctx context.Context, method string, params, result any) error {
	t.lastID++
	request, err := json.Marshal(struct {
		ID     int    `json:"id"`
		Method string `json:"method"`
		Params any    `json:"params,omitempty"`
	}{t.lastID, method, params})
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	if err := t.conn.Write(ctx, ws.Text, request); err != nil {
		return fmt.Errorf("%s: %w", method, cause(ctx, err))
	}
	for {
		m, err := t.next(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", method, err)
		case m.ID != t.lastID:
			continue
		case m.Error != nil:
			return fmt.Errorf("%s: %s", method, m.Error.Message)
		case result == nil:
			return nil
		}
		if err := json.Unmarshal(m.Result, result); err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		return nil
	}
}

// until reads events until ok.
func (t *tab) until(ctx context.Context, ok func() bool) error {
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
		return m, cause(ctx, err)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, err
	}
	if m.Method == "Inspector.targetCrashed" {
		return m, errCrashed
	}
	if m.Method != "" && t.notice != nil {
		t.notice(m.Method, m.Params)
	}
	return m, nil
}

// cause prefers the end of ctx as the reason: the connection that it closed
// fails in many ways.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
