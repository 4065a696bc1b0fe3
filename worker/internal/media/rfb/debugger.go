package rfb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"github.com/browser-svc/svc/shared/lazy"
)

const (
	pageInterval    = 500 * time.Millisecond
	listTimeout     = 5 * time.Second
	maxListFailures = 3
	maxList         = 32 << 20 // bytes; a target list contains complete data: URLs
)

var pageID = lazy.Regexp(`^[A-Za-z0-9-]{1,64}$`)

// debugger is a client of a browser's DevTools server. Only its list over HTTP shows
// which page was most recently active.
type debugger struct {
	address string
	dial    func(context.Context) (net.Conn, error) // nil: by address
	client  *http.Client

	maxWidth int // of pictures
}

// DevTools is the DevTools server of a browser.
type DevTools struct {
	Port int                                     // on loopback
	Dial func(context.Context) (net.Conn, error) // connects to it directly; nil: by its port
}

func newDebugger(server DevTools) *debugger {
	transport := &http.Transport{DisableKeepAlives: true}
	if server.Dial != nil {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return server.Dial(ctx) }
	}
	return &debugger{
		address: net.JoinHostPort("127.0.0.1", strconv.Itoa(server.Port)), dial: server.Dial,
		client:   &http.Client{Transport: transport, Timeout: listTimeout},
		maxWidth: maxSide,
	}
}

// activePage returns the id of the most recently active page, or "" if no page is open.
func (d *debugger) activePage(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.address+"/json/list", nil)
	if err != nil {
		return "", err
	}
	response, err := d.client.Do(request)
	if err != nil {
		return "", fmt.Errorf("list pages: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	var targets []struct{ ID, Type string }
	if err := json.NewDecoder(http.MaxBytesReader(nil, response.Body, maxList)).Decode(&targets); err != nil {
		return "", fmt.Errorf("list pages: %w", err)
	}
	for _, t := range targets {
		if t.Type == "page" && pageID().MatchString(t.ID) {
			return t.ID, nil
		}
	}
	return "", nil
}

// watchActivePage sends the page to show to pages, periodically and on poke, until
// ctx ends or the browser has ended.
func (d *debugger) watchActivePage(ctx context.Context, pages chan<- string, poke <-chan struct{}) {
	pace := time.NewTicker(pageInterval)
	defer pace.Stop()
	for failures := 0; failures < maxListFailures; {
		select {
		case <-pace.C:
		case <-poke:
		case <-ctx.Done():
			return
		}
		id, err := d.activePage(ctx)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return
		}
		if err != nil {
			failures++
			continue
		}
		failures = 0
		select {
		case pages <- id:
		case <-ctx.Done():
			return
		}
	}
}
