package devtools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/ws"
)

const (
	answerTimeout  = 10 * time.Second
	captureTimeout = 15 * time.Second
	maxBody        = 32 << 20 // bytes: a target list holds whole data: addresses
)

var errNoPage = fault.New(fault.Conflict, "The browser has no page open.")

// chromium talks to browsers' own DevTools servers on the loopback.
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

// get asks for a path and returns what comes with status 200. Nothing of a
// client's request goes along.
func (c chromium) get(ctx context.Context, port int, path string) (body []byte, contentType string, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+loopback(port)+path, nil)
	if err != nil {
		return nil, "", err
	}
	res, err := c.client.Do(r)
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

// firstPage is the id of the page that was active last; errNoPage when there
// is none.
func (c chromium) firstPage(ctx context.Context, port int) (string, error) {
	list, _, err := c.get(ctx, port, "/json/list")
	if err != nil {
		return "", fmt.Errorf("list targets: %w", err)
	}
	var targets []struct{ ID, Type string }
	if err := json.Unmarshal(list, &targets); err != nil {
		return "", fmt.Errorf("list targets: %w", err)
	}
	for _, t := range targets { // the last active first
		if t.Type == "page" && devtoolsID.MatchString(t.ID) {
			return t.ID, nil
		}
	}
	return "", errNoPage
}

// capture takes a JPEG of a page, over a connection of its own: sessions on
// the worker's control pipe would be given the launch's emulation settings.
func (c chromium) capture(ctx context.Context, port int, page string) ([]byte, error) {
	conn, err := ws.Dial(ctx, "ws://"+loopback(port)+"/devtools/page/"+page, nil, ws.Options{})
	if err != nil {
		return nil, fmt.Errorf("capture: %w", err)
	}
	defer conn.CloseNow()
	const request = `{"id":1,"method":"Page.captureScreenshot","params":{"format":"jpeg","quality":70,"optimizeForSpeed":true}}`
	if err := conn.Write(ctx, ws.Text, []byte(request)); err != nil {
		return nil, fmt.Errorf("capture: %w", err)
	}
	for {
		_, message, err := conn.Read(ctx)
		if err != nil {
			return nil, fmt.Errorf("capture: %w", err)
		}
		var answer struct {
			ID     int
			Result struct{ Data []byte }
			Error  *struct{ Message string }
		}
		switch err := json.Unmarshal(message, &answer); {
		case err != nil:
			return nil, fmt.Errorf("capture: %w", err)
		case answer.ID != 1: // an event
		case answer.Error != nil:
			return nil, fmt.Errorf("capture: %s", answer.Error.Message)
		case len(answer.Result.Data) == 0:
			return nil, errors.New("capture: an empty picture")
		default:
			return answer.Result.Data, nil
		}
	}
}
