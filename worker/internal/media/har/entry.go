package har

import (
	"bytes"
	"cmp"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// entry returns the entry of an exchange that has ended.
func (c *collector) entry(x *exchange) Entry {
	secrets := c.secrets()
	e := Entry{
		StartedDateTime: wallClock(x.wallTime), Request: x.httpRequest(secrets), Response: x.httpResponse(secrets), Timings: x.timings(), Comment: x.comment,
		ResourceType: strings.ToLower(x.kind), TargetID: x.target, FrameID: x.frame, RequestID: x.id, Monotonic: time.Duration(x.started * float64(time.Second)),
	}
	for _, d := range []float64{e.Timings.Blocked, e.Timings.DNS, e.Timings.Connect, e.Timings.Send, e.Timings.Wait, e.Timings.Receive} {
		e.Time += max(d, 0)
	}
	e.Time = milliseconds(e.Time / 1000)
	if x.page != nil {
		e.PageRef = x.page.ID
	}
	if r := x.response; r != nil {
		e.FromServiceWorker = r.FromServiceWorker
		e.Request.HTTPVersion = e.Response.HTTPVersion
		if u, err := url.Parse(x.request.URL); err == nil {
			e.ServerIPAddress = serverAddress(u.Hostname(), r.RemoteIPAddress)
		}
		if r.ConnectionID > 0 {
			e.Connection = strconv.FormatFloat(r.ConnectionID, 'f', 0, 64)
		}
		switch {
		case x.cached:
			e.FromCache = "memory"
		case r.FromDiskCache:
			e.FromCache = "disk"
		}
	}
	if x.socket != nil {
		for _, m := range x.socket.messages {
			m.Data = secrets.data(m.Data, m.Opcode != 1)
			e.WebSocketMessages = append(e.WebSocketMessages, m)
		}
	}
	return e
}

func (x *exchange) httpRequest(secrets *Redactor) Request {
	headers := x.request.Headers
	if x.requestHeaders != nil {
		headers = x.requestHeaders
	}
	address := CleanURL(x.request.URL, secrets)
	r := Request{
		Method: x.request.Method, URL: address, HTTPVersion: "unknown", Cookies: []Field{}, Headers: secrets.headers(fields(headers)),
		QueryString: []Field{}, HeadersSize: -1, BodySize: 0,
	}
	if _, query, ok := strings.Cut(address, "?"); ok {
		r.QueryString = parameters(query)
	}
	if !x.request.HasPostData && x.request.PostData == "" {
		return r
	}
	r.PostData = &PostData{MimeType: header(headers, "content-type")}
	var parts [][]byte
	for _, part := range x.request.PostDataEntries {
		parts = append(parts, part.Bytes)
	}
	raw := bytes.Join(parts, nil)
	if len(raw) == 0 {
		raw = []byte(x.request.PostData)
	}
	r.BodySize = int64(len(raw))
	switch {
	case len(raw) == 0:
		r.BodySize, r.PostData.Comment = -1, "The body is longer than the limit, or a file."
	case !utf8.Valid(raw):
		r.PostData.Comment = "The body is no text."
	default:
		r.PostData.Text, r.PostData.Params = secrets.posted(string(raw), r.PostData.MimeType)
	}
	return r
}

func (x *exchange) httpResponse(secrets *Redactor) Response {
	answer := Response{
		HTTPVersion: "unknown", Cookies: []Field{}, Headers: []Field{}, HeadersSize: -1, BodySize: -1, Error: x.failure,
		Content: Content{Size: x.received, MimeType: "x-unknown", Comment: x.noBody},
	}
	r := x.response
	if r == nil {
		return answer
	}
	headers := r.Headers
	if x.responseHeaders != nil {
		headers = x.responseHeaders
	}
	answer.Status, answer.StatusText, answer.HTTPVersion = r.Status, r.StatusText, version(r.Protocol)
	answer.Headers = secrets.headers(fields(headers))
	answer.RedirectURL = CleanURL(header(headers, "location"), secrets)
	answer.TransferSize = int64(max(x.size, r.EncodedDataLength))
	answer.BodySize = max(int64(x.size-r.EncodedDataLength), 0)
	if x.cached || r.FromDiskCache {
		answer.BodySize = 0
	}
	answer.Content.MimeType = cmp.Or(r.MimeType, "x-unknown")
	answer.Content.Text = secrets.data(x.body, x.base64)
	if x.base64 {
		answer.Content.Encoding = "base64"
	}
	if x.socket != nil {
		answer.HTTPVersion, answer.BodySize = "HTTP/1.1", 0
	}
	return answer
}

// timings returns the times of an exchange, as DevTools exports them.
func (x *exchange) timings() Timings {
	t := Timings{Blocked: -1, DNS: -1, Connect: -1, SSL: -1}
	total := max(x.ended-x.started, 0)
	switch {
	case x.response == nil:
		t.Blocked = milliseconds(total)
		return t
	case x.response.Timing == nil:
		t.Receive = milliseconds(total)
		return t
	}
	g := x.response.Timing
	t.Blocked = max(g.RequestTime-x.started, 0) * 1000
	for _, start := range []float64{g.DNSStart, g.ConnectStart, g.SendStart} {
		if start >= 0 {
			t.Blocked += start
			break
		}
	}
	t.Blocked = milliseconds(t.Blocked / 1000)
	t.DNS, t.Connect, t.SSL = span(g.DNSStart, g.DNSEnd), span(g.ConnectStart, g.ConnectEnd), span(g.SSLStart, g.SSLEnd)
	t.Send, t.Wait = max(span(g.SendStart, g.SendEnd), 0), max(span(g.SendEnd, g.ReceiveHeadersEnd), 0)
	t.Receive = milliseconds(max(x.ended-g.RequestTime-g.ReceiveHeadersEnd/1000, 0))
	return t
}

// span returns the milliseconds between two times; -1 if there are none.
func span(start, end float64) float64 {
	if start < 0 || end < 0 {
		return -1
	}
	return milliseconds(max(end-start, 0) / 1000)
}

// milliseconds converts seconds, rounded to microseconds.
func milliseconds(seconds float64) float64 { return math.Round(seconds*1e6) / 1000 }

func wallClock(seconds float64) time.Time {
	return time.UnixMicro(int64(seconds * 1e6)).UTC()
}
