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

// fault is a defect in a document or in the responses of a server, and the stage
// that must detect it.
type fault struct {
	name      string
	edits     []edit    // of a copy of the documents
	tampering tampering // of the cloud

	stage     string // the stage that must fail
	only      string // the only operation to test
	wantError string // a regular expression for the error of the stage
	// before sends requests that the stage checks, but does not send itself.
	before func(ctx context.Context, h *testEnvironment) error
}

// edit replaces the first occurrence of a text after the first line of an operation
// or schema.
type edit struct{ file, after, old, new string }

func (e edit) apply(dir string) error {
	name := filepath.Join(dir, e.file)
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(text), e.after+"\n")
	if !ok || !strings.Contains(rest, e.old) {
		return fmt.Errorf("%s has no %q after %q: update this fault", e.file, e.old, e.after)
	}
	return os.WriteFile(name, []byte(head+e.after+"\n"+strings.Replace(rest, e.old, e.new, 1)), 0o600) //nolint:gosec // the name is a constant
}

// tampering changes requests to a server and its responses.
type tampering struct {
	request func(*http.Request)
	answer  func(*http.Request, *http.Response) error
}

// tamperingTransport applies the tampering.
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

// tamperResponse changes the responses of one path with one status.
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

// requestUnknownProfile requests a profile that does not exist.
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
