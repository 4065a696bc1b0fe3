package selftest

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/cdp"
)

// client drives a browser over one WebSocket.
type client struct {
	*cdp.Conn
	socket *ws.Conn
}

// dial connects to a browser, or launches one over /launch.
func dial(ctx context.Context, address string, header http.Header) (*client, error) {
	socket, err := ws.Dial(ctx, strings.Replace(address, "http://", "ws://", 1), header, ws.Options{})
	if err != nil {
		return nil, err
	}
	return &client{cdp.OverWebSocket(socket), socket}, nil
}

// disconnect closes the connection normally.
func (c *client) disconnect() {
	_ = c.socket.Close(ws.NormalClosure, "")
	_ = c.Close()
}

// tab is a page of the browser.
type tab struct {
	*client
	session string // CDP session id
}

// newTab opens a tab and attaches to it.
func (c *client) newTab(ctx context.Context) (tab, error) {
	var target struct {
		TargetID string `json:"targetId"`
	}
	if err := c.Call(ctx, "", "Target.createTarget", map[string]any{"url": "about:blank"}, &target); err != nil {
		return tab{}, err
	}
	var attached struct {
		SessionID string `json:"sessionId"`
	}
	err := c.Call(ctx, "", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	return tab{c, attached.SessionID}, err
}

// open navigates to a URL, waits until it is loaded and checks its title.
func (t tab) open(ctx context.Context, address, title string) error {
	loaded := t.Subscribe(16, "Page.loadEventFired")
	defer loaded.Close()
	if err := t.Call(ctx, t.session, "Page.enable", nil, nil); err != nil {
		return err
	}
	var went struct {
		ErrorText string `json:"errorText"`
	}
	if err := t.Call(ctx, t.session, "Page.navigate", map[string]any{"url": address}, &went); err != nil {
		return err
	}
	if went.ErrorText != "" {
		return fmt.Errorf("%s: %s", address, went.ErrorText)
	}
	for {
		select {
		case event, ok := <-loaded.Events():
			if !ok {
				return loaded.Err()
			}
			if event.SessionID != t.session {
				continue
			}
		case <-ctx.Done():
			return fmt.Errorf("%s did not load: %w", address, ctx.Err())
		}
		var got string
		if err := t.evaluate(ctx, "document.title", &got); err != nil || got != title {
			return errors.Join(err, fmt.Errorf("%s has the title %q, want %q", address, got, title))
		}
		return nil
	}
}

// evaluate runs a script and decodes its result.
func (t tab) evaluate(ctx context.Context, script string, value any) error {
	var answer struct {
		Result           struct{ Value any }
		ExceptionDetails *struct{ Text string }
	}
	answer.Result.Value = value
	params := map[string]any{"expression": script, "returnByValue": true, "awaitPromise": true}
	if err := t.Call(ctx, t.session, "Runtime.evaluate", params, &answer); err != nil {
		return err
	}
	if answer.ExceptionDetails != nil {
		return fmt.Errorf("%s: %s", script, answer.ExceptionDetails.Text)
	}
	return nil
}

// capture takes a screenshot or a PDF and checks its format.
func (t tab) capture(ctx context.Context, method, magic string) error {
	var answer struct{ Data string }
	if err := t.Call(ctx, t.session, method, map[string]any{}, &answer); err != nil {
		return err
	}
	begin, err := base64.StdEncoding.DecodeString(answer.Data[:min(len(answer.Data), 12)])
	if err != nil || !bytes.HasPrefix(begin, []byte(magic)) {
		return fmt.Errorf("%s returned %d characters that begin with %q", method, len(answer.Data), begin)
	}
	return nil
}

const pictureTimeout = 30 * time.Second

// waitForPicture connects to the live view and waits for the first image.
func waitForPicture(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, pictureTimeout)
	defer cancel()
	socket, err := ws.Dial(ctx, strings.Replace(address, "http://", "ws://", 1), http.Header{"Sec-Websocket-Protocol": {"binary"}}, ws.Options{})
	if err != nil {
		return err
	}
	defer socket.CloseNow()
	return firstPicture(socket.Stream(ctx, ws.Binary))
}

// firstPicture is the client side of RFB 3.8 without a password.
func firstPicture(conn io.ReadWriter) error {
	init := make([]byte, 24)
	steps := []struct {
		hear int
		say  []byte
	}{
		{12, []byte("RFB 003.008\n")},
		{2, []byte{1}}, // one security type: none
		{4, []byte{1}}, // the result of security; then a shared connection
	}
	for _, step := range steps {
		if _, err := io.ReadFull(conn, make([]byte, step.hear)); err != nil {
			return fmt.Errorf("the view's handshake: %w", err)
		}
		if _, err := conn.Write(step.say); err != nil {
			return fmt.Errorf("the view's handshake: %w", err)
		}
	}
	if _, err := io.ReadFull(conn, init); err != nil {
		return fmt.Errorf("the view's handshake: %w", err)
	}
	name := int(init[20])<<24 | int(init[21])<<16 | int(init[22])<<8 | int(init[23])
	if _, err := io.ReadFull(conn, make([]byte, min(name, 4<<10))); err != nil {
		return fmt.Errorf("the view's handshake: %w", err)
	}
	whole := append([]byte{3, 0, 0, 0, 0, 0}, init[:4]...)
	if _, err := conn.Write(whole); err != nil {
		return err
	}
	update := make([]byte, 4)
	if _, err := io.ReadFull(conn, update); err != nil {
		return fmt.Errorf("the view sent no picture: %w", err)
	}
	if rectangles := int(update[2])<<8 | int(update[3]); update[0] != 0 || rectangles == 0 {
		return fmt.Errorf("the view begins with message %d of %d rectangles", update[0], rectangles)
	}
	return nil
}
