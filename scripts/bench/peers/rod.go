package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/go-rod/rod"
	"github.com/go-rod/rod/lib/launcher"
	"github.com/go-rod/rod/lib/proto"
)

// managed is rod's launcher.Manager, a server that launches a browser for each
// connection.
type managed struct {
	setup
	server  *http.Server
	address string
}

func newRod(s setup) (*managed, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // returns at once
	if err != nil {
		return nil, err
	}
	manager := launcher.NewManager()
	manager.BeforeLaunch = func(*launcher.Launcher, http.ResponseWriter, *http.Request) {} // like --allow-all, because Chromium was not downloaded by rod
	m := &managed{setup: s, server: &http.Server{Handler: manager, ReadHeaderTimeout: 5 * time.Second}, address: "ws://" + listener.Addr().String()}
	go func() { _ = m.server.Serve(listener) }()
	return m, nil
}

func (m *managed) visit(ctx context.Context, marks *marks) error {
	l, err := launcher.NewManaged(m.address)
	if err != nil {
		return fmt.Errorf("ask the manager: %w", err)
	}
	client, err := l.Context(ctx).Bin(m.Chromium).Headless(true).NoSandbox(!m.Sandbox).Client()
	if err != nil {
		return fmt.Errorf("launch: %w", err)
	}
	browser := rod.New().Context(ctx).Client(client)
	if err := browser.Connect(); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = browser.Close() }()
	if _, err := browser.Version(); err != nil {
		return fmt.Errorf("version: %w", err)
	}
	marks.answered()
	page, err := browser.Page(proto.TargetCreateTarget{URL: m.Page})
	if err != nil {
		return fmt.Errorf("open a page: %w", err)
	}
	if err := page.WaitLoad(); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	marks.loaded()
	return nil
}

func (m *managed) close() { _ = m.server.Close() }
