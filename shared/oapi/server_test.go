package oapi_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/oapi"
	"github.com/browser-svc/svc/shared/oapi/bundled"
)

// thing is the generated type of the schema Thing.
type thing struct {
	ID       *string            `json:"id,omitempty"`
	Name     string             `json:"name"`
	Slug     *string            `json:"slug,omitempty"`
	Count    *int32             `json:"count,omitempty"`
	Big      *int64             `json:"big,omitempty"`
	Even     *int               `json:"even,omitempty"`
	Ratio    *float64           `json:"ratio,omitempty"`
	Weight   *float32           `json:"weight,omitempty"`
	On       *bool              `json:"on,omitempty"`
	Color    *string            `json:"color,omitempty"`
	Shade    *string            `json:"shade,omitempty"`
	Tags     *[]string          `json:"tags,omitempty"`
	At       *time.Time         `json:"at,omitempty"`
	Day      *string            `json:"day,omitempty"`
	Owner    *string            `json:"owner,omitempty"`
	Mail     *string            `json:"mail,omitempty"`
	URL      *string            `json:"url,omitempty"`
	Blob     *[]byte            `json:"blob,omitempty"`
	Point    *point             `json:"point,omitempty"`
	Points   *[]point           `json:"points,omitempty"`
	Proxy    *proxy             `json:"proxy,omitempty"`
	Proxies  *[]proxy           `json:"proxies,omitempty"`
	Override *proxy             `json:"override,omitempty"`
	Labels   *map[string]string `json:"labels,omitempty"`
	Metadata *map[string]any    `json:"metadata,omitempty"`
	Size     json.RawMessage    `json:"size,omitempty"`
	Shape    *shape             `json:"shape,omitempty"`
	Pick     *pick              `json:"pick,omitempty"`
	Vague    *string            `json:"vague,omitempty"`
	Nots     *string            `json:"nots,omitempty"`
	Child    *thing             `json:"child,omitempty"`
	Tree     json.RawMessage    `json:"tree,omitempty"`
}

type point struct {
	X int32 `json:"x"`
	Y int32 `json:"y"`
}

type proxy struct {
	Server   string  `json:"server"`
	Password *string `json:"password,omitempty"`
	Token    *string `json:"token,omitempty"`
}

type shape struct {
	Kind   string `json:"kind"`
	Radius *int   `json:"radius,omitempty"`
	Side   *int   `json:"side,omitempty"`
}

type pick struct {
	Name  *string `json:"name,omitempty"`
	Place *int    `json:"place,omitempty"`
}

// receivedRequest is the request as the handlers and the authorizer received it.
type receivedRequest struct {
	handled bool
	body    string
	whole   string // the body's Text, if it has one
	thing   thing
	user    string
	op      oapi.Operation
}

type userKey struct{}

func withUser(r *http.Request, user string) context.Context {
	return context.WithValue(r.Context(), userKey{}, user)
}

func authenticators() map[string]oapi.Authenticator {
	check := func(r *http.Request, got, name string) (context.Context, error) {
		switch got {
		case "":
			return nil, oapi.ErrNoCredential
		case "good":
			user, _ := r.Context().Value(userKey{}).(string)
			return withUser(r, user+name), nil
		case "broken":
			return nil, io.ErrUnexpectedEOF
		}
		return nil, fault.New(fault.Unauthenticated, "The "+name+" is wrong.")
	}
	return map[string]oapi.Authenticator{
		"session": func(r *http.Request) (context.Context, error) {
			cookie, err := r.Cookie("session")
			if err != nil {
				return nil, oapi.ErrNoCredential
			}
			return check(r, cookie.Value, "session")
		},
		"bearer": func(r *http.Request) (context.Context, error) {
			return check(r, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), "bearer")
		},
		"ticket": func(r *http.Request) (context.Context, error) {
			return check(r, r.URL.Query().Get("ticket"), "ticket")
		},
	}
}

func load(t testing.TB) *bundled.Document {
	t.Helper()
	doc, err := bundled.Load(t.Context(), os.DirFS("testdata"), "api.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func newGuard(t testing.TB, opts oapi.Options) *oapi.Guard {
	t.Helper()
	opts.Authenticators = authenticators()
	guard, err := oapi.NewGuard(load(t).Document, opts)
	if err != nil {
		t.Fatal(err)
	}
	return guard
}

// newEcho returns a server with a handler for each route of the document, and an error
// handler that writes the error.
func newEcho(t testing.TB, saw *receivedRequest) *echo.Echo {
	t.Helper()
	e := echo.New()
	e.HTTPErrorHandler = func(err error, c echo.Context) {
		f := fault.From(err)
		if f.Kind == fault.Internal {
			t.Logf("internal: %v", err)
		}
		_ = c.JSON(f.Kind.Status(), f)
	}
	authorize := func(ctx context.Context, op oapi.Operation) (context.Context, error) {
		saw.op = op
		if len(op.Roles) > 0 && ctx.Value(userKey{}) != "session" {
			return nil, fault.New(fault.Forbidden, "Not for you.")
		}
		return ctx, nil
	}
	e.Use(newGuard(t, oapi.Options{Authorize: authorize, MaxBody: 100 << 10}).Middleware())
	handle := func(c echo.Context) error {
		saw.handled = true
		saw.user, _ = c.Request().Context().Value(userKey{}).(string)
		body, err := io.ReadAll(c.Request().Body)
		saw.body = string(body)
		if whole, has := c.Request().Body.(interface{ Text() []byte }); has {
			saw.whole = string(whole.Text())
		}
		if err != nil {
			return err
		}
		if strings.HasPrefix(c.Path(), "/things") && len(body) > 0 {
			return json.Unmarshal(body, &saw.thing)
		}
		return nil
	}
	for _, path := range []string{"/open", "/things", "/uploads", "/launches", "/slots", "/elsewhere"} {
		e.GET(path, handle)
		e.POST(path, handle)
		e.HEAD(path, handle)
	}
	for _, path := range []string{"/things/:id", "/raw/*"} {
		e.GET(path, handle)
		e.DELETE(path, handle)
	}
	return e
}

type call struct {
	method, target, body, contentType string
	header                            map[string]string
	anonymous                         bool
}

type answer struct {
	status int
	fault  fault.Error
	text   string
	saw    receivedRequest
}

// send sends the call over HTTP, by default a POST of JSON to /things with a valid
// session.
func send(t testing.TB, c call) answer {
	t.Helper()
	var saw receivedRequest
	server := httptest.NewServer(newEcho(t, &saw))
	defer server.Close()
	method := c.method
	if method == "" {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(t.Context(), method, server.URL+cmp.Or(c.target, "/things"), strings.NewReader(c.body))
	if err != nil {
		t.Fatal(err)
	}
	if c.body != "" {
		r.Header.Set("Content-Type", cmp.Or(c.contentType, "application/json"))
	}
	if !c.anonymous {
		r.Header.Set("Cookie", "session=good")
	}
	for name, value := range c.header {
		if value == "" {
			r.Header.Del(name)
		} else {
			r.Header.Set(name, value)
		}
	}
	response, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	out := answer{status: response.StatusCode, text: string(text), saw: saw}
	if len(text) > 0 {
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber()
		if err := decoder.Decode(&out.fault); err != nil {
			t.Fatalf("answer %q: %v", text, err)
		}
	}
	return out
}
