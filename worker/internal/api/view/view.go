// Package view serves the live view of a browser: the page that shows and
// controls it, the page with its details, and the picture stream (specification
// 4.4, 5.5).
package view

import (
	"context"
	"html/template"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/browser-svc/svc/worker/internal/auth/access"
)

// Streamer serves RFB to one viewer of a browser. It forwards input and counts it as
// activity only if control is true. It owns the connection and returns when the
// connection, the picture or ctx has ended.
type Streamer interface {
	Stream(ctx context.Context, viewer net.Conn, browser access.Browser, control bool) error
}

// Options configures a Service.
type Options struct {
	Streamer   Streamer
	Logger     *slog.Logger
	MaxViewers int           // concurrent viewers of one launch, for each of the two accesses; default 32
	PingEvery  time.Duration // interval of pings to viewers; default 30 s
}

// Service serves the routes and owns the streams until Close.
type Service struct {
	Options
	// Created on first use, because most workers serve no pages.
	assets   func() assets
	viewPage func() *template.Template
	homePage func() *template.Template

	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	mu      sync.Mutex
	viewers map[viewerSlot]int // open streams
	streams sync.WaitGroup
}

// New returns a Service. The caller must call Close.
func New(o Options) *Service {
	if o.MaxViewers == 0 {
		o.MaxViewers = 32
	}
	if o.PingEvery == 0 {
		o.PingEvery = 30 * time.Second
	}
	s := &Service{
		Options: o, assets: sync.OnceValue(loadAssets), viewers: map[viewerSlot]int{},
		viewPage: parsePage("view.html"), homePage: parsePage("browser.html"),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Close ends all streams, refuses new ones, and waits until they have ended. It
// may be called again.
func (s *Service) Close() error {
	s.mu.Lock() // no viewer is added afterwards
	s.cancel()
	s.mu.Unlock()
	s.streams.Wait()
	return nil
}

// Routes returns the routes for package access.
func (s *Service) Routes() []access.Route {
	return []access.Route{
		{Path: "/", Kind: access.Page, Handle: s.infoPage},
		{Path: "/view", Kind: access.ViewPage, Handle: s.viewPageHandler},
		{Path: "/view/*", Kind: access.ViewAsset, Handle: s.asset},
		{Path: "/vnc", Kind: access.Stream, Handle: s.stream},
	}
}
