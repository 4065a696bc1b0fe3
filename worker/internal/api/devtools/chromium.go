package devtools

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/auth/access"
)

const (
	answerTimeout = 10 * time.Second
	maxBody       = 32 << 20 // bytes; a target list contains complete data: URLs
)

var (
	errNoPage   = fault.New(fault.Conflict, "The browser has no page open.")
	errNoTarget = fault.New(fault.NotFound, "The browser has no such target.")
)

// refusedError is an unsuccessful answer of Chromium.
type refusedError struct{ status int }

func (e *refusedError) Error() string {
	return fmt.Sprintf("chromium refused with status %d", e.status)
}

// chromium is a client of the DevTools servers of browsers, on loopback.
type chromium struct{ client *http.Client }

func newChromium() chromium {
	return chromium{&http.Client{
		Transport: &http.Transport{
			ResponseHeaderTimeout: answerTimeout,
			IdleConnTimeout:       30 * time.Second,
			MaxIdleConnsPerHost:   6,
			DisableCompression:    true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (c chromium) close() { c.client.CloseIdleConnections() }

// clientOf returns the client for a browser. It connects to the browser directly: what the
// worker does itself must not count as a client of the debugging port.
func (c chromium) clientOf(b access.Browser) *http.Client {
	if b.Dial == nil {
		return c.client
	}
	return &http.Client{
		Transport: &http.Transport{
			DialContext:           func(ctx context.Context, _, _ string) (net.Conn, error) { return b.Dial(ctx) },
			ResponseHeaderTimeout: answerTimeout,
			DisableKeepAlives:     true, // the browser is not frozen until a connection is closed
			DisableCompression:    true,
		},
		CheckRedirect: c.client.CheckRedirect,
	}
}

// get requests a path and returns the content of an answer with status 200.
func (c chromium) get(ctx context.Context, b access.Browser, path string) (body []byte, contentType string, err error) {
	return c.do(ctx, http.MethodGet, b, path)
}

// do is get with another method. It forwards nothing of a client's request.
func (c chromium) do(ctx context.Context, method string, b access.Browser, path string) (body []byte, contentType string, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+loopback(b.DebugPort)+path, nil)
	if err != nil {
		return nil, "", err
	}
	res, err := c.clientOf(b).Do(r)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, "", &refusedError{res.StatusCode}
	}
	body, err = io.ReadAll(http.MaxBytesReader(nil, res.Body, maxBody))
	return body, res.Header.Get("Content-Type"), err
}

// pages returns the target ids of the tabs, the most recently active first.
func (c chromium) pages(ctx context.Context, b access.Browser) ([]string, error) {
	list, _, err := c.get(ctx, b, "/json/list")
	if err != nil {
		return nil, fmt.Errorf("list targets: %w", err)
	}
	var targets []struct{ ID, Type string }
	if err := json.Unmarshal(list, &targets); err != nil {
		return nil, fmt.Errorf("list targets: %w", err)
	}
	var ids []string
	for _, t := range targets {
		if t.Type == "page" && devtoolsID().MatchString(t.ID) {
			ids = append(ids, t.ID)
		}
	}
	return ids, nil
}

// page returns the target id of the named tab, or of the most recently active tab if
// name is empty. It returns errNoTarget or errNoPage if there is none.
func (c chromium) page(ctx context.Context, b access.Browser, name string) (string, error) {
	ids, err := c.pages(ctx, b)
	switch {
	case err != nil:
		return "", err
	case name != "" && !slices.Contains(ids, name):
		return "", errNoTarget
	case name != "":
		return name, nil
	case len(ids) == 0:
		return "", errNoPage
	}
	return ids[0], nil
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
