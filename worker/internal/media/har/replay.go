package har

import (
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"
)

// Clean returns the URL and the posted body of a request as an archive has them. secrets are the values that the
// browser was filled with.
func Clean(address, mimeType string, body []byte, secrets []string) (cleanAddress, posted string) {
	r := NewRedactor(secrets)
	if utf8.Valid(body) && len(body) <= MaxPost {
		posted, _ = r.posted(string(body), mimeType)
	}
	return CleanURL(address, r), withoutBoundary(posted, mimeType)
}

// Posted returns the text that the request has posted, as Clean does; "" for none.
func (r Request) Posted() string {
	if r.PostData == nil {
		return ""
	}
	return withoutBoundary(r.PostData.Text, r.PostData.MimeType)
}

// withoutBoundary removes the boundary of a multipart text, which the browser chooses for each request.
func withoutBoundary(text, mimeType string) string {
	if _, params, err := mime.ParseMediaType(mimeType); err == nil && params["boundary"] != "" {
		return strings.ReplaceAll(text, params["boundary"], "")
	}
	return text
}

// HasAnswer reports whether the entry says how its request ended. Otherwise the recording ended before.
func (e Entry) HasAnswer() bool { return e.Response.Status > 0 || e.Response.Error != "" }

// IsOfBrowser reports whether a cache or a service worker in the browser has answered the request.
func (e Entry) IsOfBrowser() bool { return e.FromCache == "memory" || e.FromServiceWorker }

// errIncomplete is why an entry cannot be replayed.
var errIncomplete = errors.New("har: the body of the response was not recorded")

// Answer returns the response of an entry, without cookies, as it was before its body was encoded for the network. The
// status of a failed request is 0, and its Status the error. Error: the body was not recorded.
func (e Entry) Answer() (*http.Response, error) {
	r := e.Response
	answer := &http.Response{StatusCode: r.Status, Status: r.StatusText, Header: http.Header{}, Body: http.NoBody}
	switch {
	case r.Status == 0:
		answer.Status = r.Error
		return answer, nil
	case e.IsIncomplete():
		return nil, errIncomplete
	}
	for _, f := range r.Headers {
		switch strings.ToLower(f.Name) {
		case "content-encoding", "content-length", "transfer-encoding":
		default:
			answer.Header.Add(f.Name, f.Value)
		}
	}
	if r.Content.Text == "" {
		return answer, nil
	}
	answer.Body = io.NopCloser(strings.NewReader(r.Content.Text))
	if r.Content.Encoding == "base64" {
		answer.Body = io.NopCloser(base64.NewDecoder(base64.StdEncoding, strings.NewReader(r.Content.Text)))
	}
	r.setContentType(answer.Header)
	return answer, nil
}

// IsIncomplete reports whether a response with a body has none in the archive.
func (e Entry) IsIncomplete() bool {
	r := e.Response
	switch {
	case r.Content.Text != "", e.Request.Method == http.MethodHead, e.ResourceType == "preflight", r.Status == http.StatusNoContent,
		r.Status == http.StatusNotModified, r.Status/100 == 3 && r.RedirectURL != "":
		return false
	}
	return r.Content.Size > 0 || r.BodySize > 0 || r.Content.Comment != "" || r.Error != "" || e.Comment != "" && e.Comment != requestUnseen
}

// setContentType sets the type that the browser has found, if the server sent none, and the character set of text: the
// archive has it in UTF-8.
func (r Response) setContentType(header http.Header) {
	sent := header.Get("Content-Type")
	if sent == "" && r.Content.MimeType != "x-unknown" {
		sent = r.Content.MimeType
		header.Set("Content-Type", sent)
	}
	kind, parameters, err := mime.ParseMediaType(sent)
	charset := strings.ToLower(parameters["charset"])
	isASCII := !strings.ContainsFunc(r.Content.Text, func(c rune) bool { return c >= utf8.RuneSelf })
	if err != nil || r.Content.Encoding == "base64" || charset == "utf-8" || charset == "" && isASCII {
		return
	}
	parameters["charset"] = "utf-8"
	header.Set("Content-Type", mime.FormatMediaType(kind, parameters))
}
