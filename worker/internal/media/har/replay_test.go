package har_test

import (
	"io"
	"testing"

	"github.com/browser-svc/svc/worker/internal/media/har"
)

// entry returns an entry with a response.
func entry(status int, change func(*har.Entry)) har.Entry {
	e := har.Entry{Request: har.Request{Method: "GET"}, Response: har.Response{Status: status, Content: har.Content{MimeType: "text/html"}}}
	change(&e)
	return e
}

func TestAnswer_RestoresResponse(t *testing.T) {
	field := func(name, value string) []har.Field { return []har.Field{{Name: name, Value: value}} }
	for name, c := range map[string]struct {
		entry             har.Entry
		status            int
		header, want, now string // a header with its value, and the body
	}{
		"text": {entry(200, func(e *har.Entry) {
			e.Response.Content.Text, e.Response.Headers = "a", field("Content-Type", "text/plain")
		}), 200, "Content-Type", "text/plain", "a"},
		"text of another character set": {entry(200, func(e *har.Entry) {
			e.Response.Content.Text, e.Response.Headers = "é", field("content-type", "text/html; charset=ISO-8859-1")
		}), 200, "Content-Type", "text/html; charset=utf-8", "é"},
		"ASCII in UTF-16": {entry(200, func(e *har.Entry) {
			e.Response.Content.Text, e.Response.Headers = "a", field("content-type", "text/css;charset=utf-16")
		}), 200, "Content-Type", "text/css; charset=utf-8", "a"},
		"text without a type": {entry(200, func(e *har.Entry) { e.Response.Content.Text = "é" }), 200, "Content-Type", "text/html; charset=utf-8", "é"},
		"binary": {entry(200, func(e *har.Entry) {
			e.Response.Content.Text, e.Response.Content.Encoding = "AAEC/w==", "base64"
		}), 200, "Content-Type", "text/html", "\x00\x01\x02\xff"},
		"without encoding":   {entry(200, func(e *har.Entry) { e.Response.Headers = field("Content-Encoding", "br") }), 200, "Content-Encoding", "", ""},
		"a redirect":         {entry(302, func(e *har.Entry) { e.Response.RedirectURL, e.Response.Headers = "/x", field("Location", "/x") }), 302, "Location", "/x", ""},
		"no content":         {entry(204, func(e *har.Entry) { e.Response.Error = "net::ERR_ABORTED" }), 204, "Content-Type", "", ""},
		"HEAD":               {entry(200, func(e *har.Entry) { e.Request.Method, e.Response.Content.Size = "HEAD", 9 }), 200, "Content-Type", "", ""},
		"a failure":          {entry(0, func(e *har.Entry) { e.Response.Error = "net::ERR_FAILED" }), 0, "Content-Type", "", ""},
		"a body without end": {entry(200, func(e *har.Entry) { e.Comment = "The recording ended before the response." }), -1, "", "", ""},
		"a missing body":     {entry(200, func(e *har.Entry) { e.Response.Content.Comment = "too long" }), -1, "", "", ""},
		"a download":         {entry(200, func(e *har.Entry) { e.Response.Error = "net::ERR_ABORTED" }), -1, "", "", ""},
		"a preflight": {entry(200, func(e *har.Entry) {
			e.ResourceType, e.Response.Content.Comment = "preflight", "gone"
		}), 200, "Content-Type", "", ""},
		"a stored body":      {entry(200, func(e *har.Entry) { e.Response.BodySize = 9 }), -1, "", "", ""},
		"a created resource": {entry(201, func(e *har.Entry) { e.Response.RedirectURL, e.Response.Content.Size = "/x", 9 }), -1, "", "", ""},
	} {
		answer, err := c.entry.Answer()
		if err != nil {
			if c.status >= 0 {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		body, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != c.status || answer.Header.Get(c.header) != c.want || string(body) != c.now {
			t.Errorf("%s: got %d %v %q (%v)", name, answer.StatusCode, answer.Header, body, err)
		}
		if c.status == 0 && answer.Status != c.entry.Response.Error {
			t.Errorf("%s: the error is %q", name, answer.Status)
		}
	}
}
