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

	"github.com/browser-svc/svc/worker/internal/access"
)

// Streamer speaks RFB with one viewer of a browser. It forwards input and
// counts it as activity only if control is true. It owns the connection and
// returns when the connection, the picture or ctx has ended.
type Streamer interface {
	Stream(ctx context.Context, viewer net.Conn, browser access.Browser, control bool) error
}

// Options configures a Service.
type Options struct {
	Streamer   Streamer
	Logger     *slog.Logger
	MaxViewers int           // viewers of one launch at a time, and as many more with control; 32 when zero
	PingEvery  time.Duration // how often viewers are asked whether they are there; 30 s when zero
}

// Service serves the routes and owns the streams until Close.
type Service struct {
	Options
	// Made when a page is first shown: most workers show no browser to anybody.
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
	s.mu.Lock() // after this, none joins
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
