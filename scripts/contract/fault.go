package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
)

// fault is something wrong, in a document or in what a server answers, and who
// has to notice it.
type fault struct {
	name      string
	edits     []edit    // of a copy of the documents
	tampering tampering // of the cloud

	stage     string // the stage that has to fail
	only      string // the operation that it keeps to
	wantError string // a regular expression for its error
	// before makes an exchange that the stage judges, but does not make itself.
	before func(ctx context.Context, h *testEnvironment) error
}

// edit replaces the first text after a line that begins an operation or a
// schema.
type edit struct{ file, after, old, new string }

func (e edit) apply(dir string) error {
	name := filepath.Join(dir, e.file)
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(text), e.after+"\n")
	if !ok || !strings.Contains(rest, e.old) {
		return fmt.Errorf("%s has no %q after %q: bring this fault up to date", e.file, e.old, e.after)
	}
	return os.WriteFile(name, []byte(head+e.after+"\n"+strings.Replace(rest, e.old, e.new, 1)), 0o600) //nolint:gosec // the name is one of ours
}

// tampering changes what passes to and from a server.
type tampering struct {
	request func(*http.Request)
	answer  func(*http.Request, *http.Response) error
}

// tamperingTransport is a server that lies.
type tamperingTransport struct {
	http.RoundTripper
	tampering tampering
}

// RoundTrip implements http.RoundTripper.
func (l tamperingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if l.tampering.request != nil {
		r = r.Clone(r.Context())
		l.tampering.request(r)
	}
	answer, err := l.RoundTripper.RoundTrip(r)
	if err == nil && l.tampering.answer != nil {
		err = l.tampering.answer(r, answer)
	}
	return answer, err
}

// tamperResponse is a lie about the answers to one path that have one status.
func tamperResponse(path string, status int, change func(*http.Response, map[string]any) map[string]any) tampering {
	return tampering{answer: func(r *http.Request, a *http.Response) error {
		if !strings.HasPrefix(r.URL.Path, path) || a.StatusCode != status {
			return nil
		}
		var body map[string]any
		err := json.NewDecoder(a.Body).Decode(&body)
		_ = a.Body.Close()
		if err != nil {
			return err
		}
		text, err := json.Marshal(change(a, body))
		a.Body, a.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
		a.Header.Del("Content-Length")
		return err
	}}
}

// requestUnknownProfile asks for a profile that is not there.
func requestUnknownProfile(ctx context.Context, h *testEnvironment) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, h.seed.CloudURL+"/v1/profiles/"+uuid.NewString(), nil)
	if err != nil {
		return err
	}
	response, err := withHeader("Authorization", "Bearer "+h.seed.Owner.Token).Do(r)
	if err != nil {
		return err
	}
	return response.Body.Close()
}
