package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// apiClient sends requests to one program, with a credential.
type apiClient struct {
	client *http.Client
	base   string
	header []string // names and values
}

func (by apiClient) with(header ...string) apiClient {
	by.header = slices.Concat(by.header, header)
	return by
}

// response is a response with its body as text and JSON.
type response struct {
	request string
	status  int
	header  http.Header
	body    string
	json    any // nil if the body is not JSON
}

// do sends a request. The path may be a complete URL. The body is JSON.
func (by apiClient) do(t *testing.T, method, path, body string) response {
	t.Helper()
	address := path
	if !strings.HasPrefix(path, "http") {
		address = by.base + path
	}
	request, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(by.header); i += 2 {
		request.Header.Set(by.header[i], by.header[i+1])
	}
	answer, err := by.client.Do(request)
	if err != nil {
		t.Fatalf("%s %s: %v", method, withoutQuery(address), err)
	}
	defer answer.Body.Close()
	r := response{request: method + " " + withoutQuery(address), status: answer.StatusCode, header: answer.Header}
	if answer.StatusCode == http.StatusSwitchingProtocols {
		return r
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatalf("%s: %v", r.request, err)
	}
	r.body = string(text)
	if err := json.Unmarshal(text, &r.json); err != nil {
		r.json = nil
	}
	return r
}

func (by apiClient) get(t *testing.T, path string) response {
	t.Helper()
	return by.do(t, http.MethodGet, path, "")
}

func (by apiClient) post(t *testing.T, path, body string) response {
	t.Helper()
	return by.do(t, http.MethodPost, path, body)
}

// requireStatus fails the test unless the response has the status.
func (r response) requireStatus(t *testing.T, status int) response {
	t.Helper()
	if r.status != status {
		t.Fatalf("%s returned status %d, want %d: %s", r.request, r.status, status, r.body)
	}
	return r
}

// requireError fails the test unless the response is an error with the status, the
// code and, if any are given, the details. Each detail is "field" or "field CODE".
// A VALIDATION_ERROR must have details.
func (r response) requireError(t *testing.T, status int, code string, details ...string) response {
	t.Helper()
	if r.status != status || r.value("success") != false || r.text("error.code") != code {
		t.Fatalf("%s returned status %d, want %d %s: %s", r.request, r.status, status, code, r.body)
	}
	found, _ := r.value("error.details").([]any)
	if len(found) == 0 && code == "VALIDATION_ERROR" || len(details) > 0 && len(found) != len(details) {
		t.Fatalf("%s: %d details, want %q: %s", r.request, len(found), details, r.body)
	}
	for i, want := range details {
		detail := fmt.Sprintf("error.details.%d.", i)
		field, kind, _ := strings.Cut(want, " ")
		if r.text(detail+"field") != field || kind != "" && r.text(detail+"code") != kind || r.text(detail+"message") == "" {
			t.Errorf("%s: detail %d is not %s: %s", r.request, i, want, r.body)
		}
	}
	return r
}

// value returns the value at a path such as data.items.0.id, or nil.
func (r response) value(path string) any {
	value := r.json
	for step := range strings.SplitSeq(path, ".") {
		switch within := value.(type) {
		case map[string]any:
			value = within[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(within) {
				return nil
			}
			value = within[i]
		default:
			return nil
		}
	}
	return value
}

func (r response) text(path string) string {
	value, _ := r.value(path).(string)
	return value
}

// number returns the number at the path, or -1.
func (r response) number(path string) int {
	value, ok := r.value(path).(float64)
	if !ok {
		return -1
	}
	return int(value)
}

// requireValue fails the test unless the response has the JSON value at the path.
func (r response) requireValue(t *testing.T, path, want string) {
	t.Helper()
	if found, err := json.Marshal(r.value(path)); err != nil || string(found) != want {
		t.Errorf("%s: %s is %s (%v), want %s: %s", r.request, path, found, err, want, r.body)
	}
}
