// Package oidctest runs a real OpenID provider for tests: the certified oidc-provider
// of Node.js, behind a proxy with which a test can change answers.
package oidctest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
)

// Client is a registered client of a Provider.
type Client struct {
	ID, Secret string
}

// Provider is a running OpenID provider. The user "ada" has the address
// ada@example.com. The address is verified unless the name begins with "unverified".
type Provider struct {
	Issuer string
	Client Client // the client under test
	Other  Client // another one, with the same redirect URL
	front  atomic.Pointer[func(http.Handler) http.Handler]
}

// Options configure a provider.
type Options struct {
	RedirectURL          string // of its clients
	ClaimsAtUserInfoOnly bool   // ID tokens contain only the subject
}

// Start runs a provider until the test ends.
func Start(t testing.TB, o Options) *Provider {
	t.Helper()
	p := &Provider{
		Client: Client{ID: "svc", Secret: uuid.NewString() + uuid.NewString()},
		Other:  Client{ID: "other", Secret: uuid.NewString() + uuid.NewString()},
	}
	var behind http.Handler
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler := behind
		if wrap := p.front.Load(); wrap != nil {
			handler = (*wrap)(handler)
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	p.Issuer = front.URL
	address := p.run(t, o)
	behind = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(address)
		r.Out.Host = r.In.Host // the provider derives its URLs from the host
	}}
	return p
}

// run starts Node.js and returns the address of the provider.
func (p *Provider) run(t testing.TB, o Options) *url.URL {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	client := func(c Client) map[string]any {
		return map[string]any{"client_id": c.ID, "client_secret": c.Secret, "redirect_uris": []string{o.RedirectURL}}
	}
	config, err := json.Marshal(map[string]any{
		"issuer": p.Issuer, "cookieKey": uuid.NewString(), "claimsAtUserInfoOnly": o.ClaimsAtUserInfoOnly,
		"clients":  []any{client(p.Client), client(p.Other)},
		"packages": filepath.Join(filepath.Dir(here), "../../../../../scripts/package.json"),
	})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", filepath.Join(filepath.Dir(here), "provider.mjs"))
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	stdin, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if inErr != nil || outErr != nil {
		t.Fatal(inErr, outErr)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the OpenID provider: %v", err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait() // the process ends with the test's context at the latest
	})
	_, err = fmt.Fprintf(stdin, "%s\n", config)
	if err != nil {
		t.Fatal(err)
	}
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the OpenID provider did not start (its package comes from scripts/npm-install): %v\n%s", err, complaint.String())
	}
	return &url.URL{Scheme: "http", Host: "127.0.0.1:" + strings.TrimSpace(port)}
}

// WrapHandler wraps the provider's handler until the next call; nil restores it.
func (p *Provider) WrapHandler(wrap func(provider http.Handler) http.Handler) {
	if wrap == nil {
		p.front.Store(nil)
		return
	}
	p.front.Store(&wrap)
}

var form = regexp.MustCompile(`<form[^>]* action="([^"]+)"[\s\S]*?name="prompt" value="(login|consent)"`)

// SignIn performs a user's steps at the provider: it opens the authorization URL, signs
// in with the name, gives consent and returns the URL to which the provider redirects
// the browser. It shares only the cookie jar with the given browser.
func (p *Provider) SignIn(t testing.TB, jar http.CookieJar, address, name string) *url.URL {
	t.Helper()
	browser := &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if !strings.HasPrefix(r.URL.String(), p.Issuer) {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	page := visit(t, browser, http.MethodGet, address, nil)
	for range 3 {
		if page.sentTo != nil {
			return page.sentTo
		}
		found := form.FindSubmatch(page.text)
		if found == nil {
			t.Fatalf("the OpenID provider shows no form: %s", page.text)
		}
		action, err := page.address.Parse(string(found[1]))
		if err != nil {
			t.Fatal(err)
		}
		filled := url.Values{"prompt": {string(found[2])}, "login": {name}, "password": {"any"}}
		page = visit(t, browser, http.MethodPost, action.String(), filled)
	}
	t.Fatal("the OpenID provider asks again and again")
	return nil
}

// pageResult is a page, or a redirect, of the provider.
type pageResult struct {
	address *url.URL
	sentTo  *url.URL // nil if it is not a redirect
	text    []byte
}

// visit requests a page, or posts a form to it.
func visit(t testing.TB, browser *http.Client, method, address string, filled url.Values) pageResult {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(filled.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := browser.Do(r)
	if err != nil {
		t.Fatalf("at the OpenID provider: %v", err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("at the OpenID provider: %v", err)
	}
	sentTo, _ := res.Location() // fails if there is no location
	return pageResult{address: res.Request.URL, sentTo: sentTo, text: text}
}
