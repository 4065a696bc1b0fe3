// Package svc launches and drives browsers of svc workers.
//
// It is a thin layer over the types of the API documents: every answer is a type of gen/workerapi or gen/cloudapi.
// Browsers themselves are driven over CDP, with chromedp or rod, at Session.WebSocketURL.
package svc

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
)

// Options describe a worker.
type Options struct {
	Worker     string       // its URL, such as https://worker.example; by default SVC_WORKER
	Key        string       // the worker key; by default SVC_API_KEY
	HTTPClient *http.Client // nil: a client without a limit of time; the context of each call limits it
}

// Client calls a worker. It can be used concurrently.
type Client struct{ api api }

// New returns a client. It sends no request.
func New(options Options) (*Client, error) {
	a, err := newAPI(cmp.Or(options.Worker, os.Getenv("SVC_WORKER")), "X-API-Key", cmp.Or(options.Key, os.Getenv("SVC_API_KEY")), options.HTTPClient)
	return &Client{a}, err
}

// LaunchOptions describe a launch. Without ProfileID, the browser has the ephemeral profile Spec.
type LaunchOptions struct {
	ProfileID string
	Spec      *sharedapi.LaunchSpec
	Browser   workerapi.BrowserSettings // settings of this launch only
	Proxy     json.RawMessage           // replaces the proxy of the profile; null for a direct connection
	Wait      time.Duration             // how long the launch may wait for a free slot, in whole seconds
}

// Launch starts a browser. It is not repeated after an error: set Wait. If the context ends first, no browser stays.
func (c *Client) Launch(ctx context.Context, options LaunchOptions) (*Session, error) {
	request := workerapi.LaunchProfileRequest{Spec: options.Spec, Browser: &options.Browser, ProxyOverride: options.Proxy}
	if options.ProfileID != "" {
		id, err := uuid.Parse(options.ProfileID)
		if err != nil {
			return nil, fmt.Errorf("profile id %q: %w", options.ProfileID, err)
		}
		request.ProfileId = &id
	} else if request.Spec == nil {
		request.Spec = &sharedapi.LaunchSpec{}
	}
	if wait := sharedapi.WaitSeconds(options.Wait / time.Second); wait > 0 {
		request.WaitSeconds = &wait
	}
	var info SessionInfo
	if err := c.api.call(ctx, http.MethodPost, "/sessions/profile", request, &info); err != nil {
		return nil, err
	}
	return c.session(info), nil
}

// Sessions returns the running sessions, and with all those that ended within the last hour.
func (c *Client) Sessions(ctx context.Context, all bool) ([]*Session, error) {
	query := url.Values{}
	if !all {
		query.Set("status", string(sharedapi.SessionStatusRunning))
	}
	infos, err := list[SessionInfo](ctx, c.api, "/sessions", query)
	sessions := make([]*Session, 0, len(infos))
	for _, info := range infos {
		sessions = append(sessions, c.session(info))
	}
	return sessions, err
}

// Session returns a session by its id.
func (c *Client) Session(ctx context.Context, id string) (*Session, error) {
	var info SessionInfo
	if err := c.api.call(ctx, http.MethodGet, "/sessions/"+url.PathEscape(id), nil, &info); err != nil {
		return nil, err
	}
	return c.session(info), nil
}

// api sends requests to one program.
type api struct {
	base, header, value string
	http                http.Client
}

func newAPI(base, header, value string, client *http.Client) (api, error) {
	parsed, err := url.Parse(base)
	if err != nil || parsed.Host == "" || !slices.Contains([]string{"http", "https"}, parsed.Scheme) {
		return api{}, fmt.Errorf("%q is not a URL such as https://worker.example", base)
	}
	a := api{base: strings.TrimRight(base, "/"), header: header, value: value}
	if client != nil {
		a.http = *client
	}
	// net/http sends the header of the key to the next host.
	a.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return a, nil
}

// list returns the items of all pages.
func list[T any](ctx context.Context, a api, path string, query url.Values) ([]T, error) {
	var items []T
	query.Set("limit", "100")
	for page := 1; ; page++ {
		query.Set("page", strconv.Itoa(page))
		var listed struct {
			Items      []T
			Pagination sharedapi.Pagination
		}
		if err := a.call(ctx, http.MethodGet, path+"?"+query.Encode(), nil, &listed); err != nil {
			return nil, err
		}
		if items = append(items, listed.Items...); !listed.Pagination.HasNext {
			return items, nil
		}
	}
}

// call sends a JSON body, nil for none, and decodes the data of the answer.
func (a api) call(ctx context.Context, method, path string, body, data any) error {
	var text []byte
	header := http.Header{}
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
		header.Set("Content-Type", "application/json")
	}
	answer, err := a.send(ctx, method, path, header, func() io.Reader { return bytes.NewReader(text) })
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	envelope := struct{ Data any }{data}
	if err := json.NewDecoder(answer.Body).Decode(&envelope); err != nil {
		return &Error{Status: answer.StatusCode, Message: fmt.Sprintf("%s does not answer like svc: %v", a.base, err)}
	}
	return nil
}

// The limits of repetitions.
const (
	attempts     = 3
	pause        = 200 * time.Millisecond
	longestPause = 10 * time.Second // of Retry-After
)

// send returns an answer with a status below 300, whose body the caller closes. Body returns the content for each attempt; nil
// if there is none left. Requests without an effect that repeating
// could double are repeated after a lost connection and after answers that ask for it.
func (a api) send(ctx context.Context, method, path string, header http.Header, body func() io.Reader) (*http.Response, error) {
	header.Set(a.header, a.value)
	content := body()
	for attempt := 1; ; attempt++ {
		request, err := http.NewRequestWithContext(ctx, method, a.base+path, content)
		if err != nil {
			return nil, err
		}
		request.Header = header
		answer, err := a.http.Do(request)
		if err == nil && answer.StatusCode < http.StatusMultipleChoices {
			return answer, nil
		}
		wait := pause << attempt
		var refused *Error
		if err == nil {
			refused = ReadError(answer)
			err, wait = refused, max(wait, refused.RetryAfter)
		}
		if attempt == attempts || ctx.Err() != nil || !repeatable(method, refused) || wait > longestPause {
			return nil, err
		}
		if content = body(); content == nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w after: %w", ctx.Err(), err)
		case <-time.After(wait):
		}
	}
}

// repeatable reports whether a request may be sent again after an error; refused is nil if there was no answer.
func repeatable(method string, refused *Error) bool {
	if refused != nil && refused.Status == http.StatusTooManyRequests {
		return true // nothing has been done
	}
	if method != http.MethodGet && method != http.MethodDelete {
		return false
	}
	return refused == nil || slices.Contains([]int{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}, refused.Status)
}
