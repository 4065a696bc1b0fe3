package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/browser-svc/svc/shared/ws"
)

// client is a CDP client for one call at a time.
type client struct {
	conn    *ws.Conn
	session string
	id      int
}

// dial connects to an address, with connect unless it is nil.
func dial(ctx context.Context, address string, connect func(context.Context) (net.Conn, error)) (*client, error) {
	conn, err := ws.Dial(ctx, address, nil, ws.Options{ReadLimit: 4 * bigResult, DialContext: connect})
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err // without the URL, which contains a token
	}
	if err != nil {
		return nil, fmt.Errorf("connect to the browser: %w", err)
	}
	return &client{conn: conn}, nil
}

func (c *client) close() { _ = c.conn.CloseNow() }

// call sends a command and returns the unparsed answer.
func (c *client) call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	if err := c.send(ctx, method, params); err != nil {
		return nil, err
	}
	mine := fmt.Sprintf(`{"id":%d,`, c.id)
	for {
		_, answer, err := c.conn.Read(ctx)
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(string(answer[:min(len(answer), 32)]), mine) {
			return answer, nil
		}
	}
}

func (c *client) send(ctx context.Context, method string, params any) error {
	c.id++
	message := map[string]any{"id": c.id, "method": method, "params": params}
	if c.session != "" {
		message["sessionId"] = c.session
	}
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	return c.conn.Write(ctx, ws.Text, text)
}

// result sends a command and decodes the result.
func (c *client) result(ctx context.Context, method string, params, into any) error {
	text, err := c.call(ctx, method, params)
	if err != nil {
		return err
	}
	answer := struct {
		Result any
		Error  struct{ Message string }
	}{Result: into}
	if err := json.Unmarshal(text, &answer); err != nil {
		return err
	}
	if answer.Error.Message != "" {
		return errors.New(method + ": " + answer.Error.Message)
	}
	return nil
}

// attach attaches to the browser's first page. If there is none, attach creates it.
func (c *client) attach(ctx context.Context) error {
	var pages struct {
		TargetInfos []struct{ TargetID, Type string }
	}
	if err := c.result(ctx, "Target.getTargets", struct{}{}, &pages); err != nil {
		return err
	}
	var page struct{ TargetID string }
	for _, target := range pages.TargetInfos {
		if target.Type == "page" {
			page.TargetID = target.TargetID
			break
		}
	}
	if page.TargetID == "" {
		if err := c.result(ctx, "Target.createTarget", map[string]any{"url": "about:blank"}, &page); err != nil {
			return err
		}
	}
	var attached struct{ SessionID string }
	err := c.result(ctx, "Target.attachToTarget", map[string]any{"targetId": page.TargetID, "flatten": true}, &attached)
	c.session = attached.SessionID
	return err
}

// load opens an address in the page and waits for its load event.
func (c *client) load(ctx context.Context, address string) error {
	if err := c.send(ctx, "Page.enable", struct{}{}); err != nil {
		return err
	}
	if err := c.send(ctx, "Page.setLifecycleEventsEnabled", map[string]any{"enabled": true}); err != nil {
		return err
	}
	if err := c.send(ctx, "Page.navigate", map[string]any{"url": address}); err != nil {
		return err
	}
	loaded, mine := map[string]bool{}, "" // by document
	for !loaded[mine] {
		_, text, err := c.conn.Read(ctx)
		if err != nil {
			return err
		}
		var message struct {
			ID             int
			Method         string
			Params, Result struct{ LoaderID, Name, ErrorText string }
			Error          struct{ Message string }
		}
		if err := json.Unmarshal(text, &message); err != nil {
			return err
		}
		switch {
		case message.Result.ErrorText != "" || message.Error.Message != "":
			return fmt.Errorf("open %s: %s", address, text)
		case message.ID == c.id:
			mine = message.Result.LoaderID
		case message.Method == "Page.lifecycleEvent" && message.Params.Name == "load":
			loaded[message.Params.LoaderID] = true
		}
	}
	return nil
}
