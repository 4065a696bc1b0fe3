package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"github.com/go-rod/rod"
	"github.com/go-rod/rod/lib/cdp"
	"github.com/go-rod/rod/lib/launcher"
	"github.com/go-rod/rod/lib/proto"
)

func byRod(ctx context.Context, task input) (visit, error) {
	socket, err := task.connect(ctx)
	if err != nil {
		return visit{}, fmt.Errorf("rod: %w", err)
	}
	defer func() { _ = socket.Close() }()
	browser := rod.New().Context(ctx).Client(cdp.New().Start(socket))
	if err := browser.Connect(); err != nil {
		return visit{}, fmt.Errorf("rod: %w", err)
	}
	page, err := readPage(browser, task)
	if err != nil {
		return visit{}, fmt.Errorf("rod: %w", err)
	}
	if task.Close {
		_ = browser.Close() // the browser may exit before it responds
	}
	return page, nil
}

func readPage(browser *rod.Browser, task input) (visit, error) {
	version, err := browser.Version()
	if err != nil {
		return visit{}, err
	}
	page, err := browser.Page(proto.TargetCreateTarget{URL: task.URL})
	if err != nil {
		return visit{}, err
	}
	defer func() { _ = page.Close() }()
	if err := page.WaitLoad(); err != nil {
		return visit{}, err
	}
	info, err := page.Info()
	if err != nil {
		return visit{}, err
	}
	value, err := page.Eval("() => " + task.Expression)
	if err != nil {
		return visit{}, err
	}
	picture, err := page.Screenshot(false, nil)
	if err != nil {
		return visit{}, err
	}
	return visit{Title: info.Title, Value: value.Value.Int(), Version: version.Product, Screenshot: len(picture)}, nil
}

// connect opens rod's socket. Rod itself sends the text "nil" as WebSocket key, which
// Chromium accepts but a load balancer may reject.
func (task input) connect(ctx context.Context) (*cdp.WebSocket, error) {
	header := http.Header{}
	maps.Copy(header, task.Header)
	if task.Key {
		key := make([]byte, 16)
		_, _ = rand.Read(key)
		header["Sec-WebSocket-Key"] = []string{base64.StdEncoding.EncodeToString(key)} // with the same spelling as rod
	}
	endpoint := task.Endpoint
	if strings.HasPrefix(endpoint, "http") {
		var err error
		if endpoint, err = launcher.ResolveURL(endpoint); err != nil {
			return nil, fmt.Errorf("resolve: %w", err)
		}
	}
	socket := &cdp.WebSocket{}
	if err := socket.Connect(ctx, endpoint, header); err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return socket, nil
}
