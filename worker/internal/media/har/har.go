// Package har collects the requests of a browser as entries of HAR 1.2, over a connection
// of its own, as the DevTools of Chromium export them without sensitive data: without
// cookies and without the headers that authenticate requests.
//
// Collect follows all pages, frames, workers and popups. It never makes a client wait:
// bodies are fetched in the background, and are left out if there are too many. What is
// missing is marked, in the comment of an entry or by a call of Options.Missed.
package har

import "time"

// Browser is the creator or the browser of a log.
type Browser struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Page is a document of a tab. Its times are known later than its first requests.
type Page struct {
	StartedDateTime time.Time   `json:"startedDateTime"`
	ID              string      `json:"id"`
	Title           string      `json:"title"` // the URL, as in DevTools
	PageTimings     PageTimings `json:"pageTimings"`
}

// PageTimings are milliseconds since the start of a page; -1 if unknown.
type PageTimings struct {
	OnContentLoad float64 `json:"onContentLoad"`
	OnLoad        float64 `json:"onLoad"`
}

// Entry is a request with its response. A redirect is an entry of its own.
type Entry struct {
	PageRef         string    `json:"pageref,omitempty"`
	StartedDateTime time.Time `json:"startedDateTime"`
	Time            float64   `json:"time"`
	Request         Request   `json:"request"`
	Response        Response  `json:"response"`
	Cache           struct{}  `json:"cache"`
	Timings         Timings   `json:"timings"`
	ServerIPAddress string    `json:"serverIPAddress,omitempty"`
	Connection      string    `json:"connection,omitempty"`
	Comment         string    `json:"comment,omitempty"`

	ResourceType      string    `json:"_resourceType,omitempty"`
	FromCache         string    `json:"_fromCache,omitempty"` // memory or disk
	FromServiceWorker bool      `json:"_fetchedViaServiceWorker,omitempty"`
	WebSocketMessages []Message `json:"_webSocketMessages,omitempty"`

	TargetID  string        `json:"-"` // of the page, frame or worker
	FrameID   string        `json:"-"`
	RequestID string        `json:"-"` // of the protocol; redirects share it
	Monotonic time.Duration `json:"-"` // of the start, on the clock of the browser
}

// Request is the request of an entry.
type Request struct {
	Method      string    `json:"method"`
	URL         string    `json:"url"`
	HTTPVersion string    `json:"httpVersion"`
	Cookies     []Field   `json:"cookies"` // always empty
	Headers     []Field   `json:"headers"`
	QueryString []Field   `json:"queryString"`
	PostData    *PostData `json:"postData,omitempty"`
	HeadersSize int64     `json:"headersSize"`
	BodySize    int64     `json:"bodySize"`
}

// Field is a header, a parameter or a cookie.
type Field struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// PostData is the body of a request.
type PostData struct {
	MimeType string  `json:"mimeType"`
	Params   []Field `json:"params,omitempty"`
	Text     string  `json:"text"`
	Comment  string  `json:"comment,omitempty"` // why Text is missing
}

// Response is the response of an entry. The status of a failed request is 0.
type Response struct {
	Status       int     `json:"status"`
	StatusText   string  `json:"statusText"`
	HTTPVersion  string  `json:"httpVersion"`
	Cookies      []Field `json:"cookies"` // always empty
	Headers      []Field `json:"headers"`
	Content      Content `json:"content"`
	RedirectURL  string  `json:"redirectURL"`
	HeadersSize  int64   `json:"headersSize"`
	BodySize     int64   `json:"bodySize"`
	TransferSize int64   `json:"_transferSize"`
	Error        string  `json:"_error,omitempty"`
}

// Content is the body of a response.
type Content struct {
	Size     int64  `json:"size"`
	MimeType string `json:"mimeType"`
	Text     string `json:"text,omitempty"`
	Encoding string `json:"encoding,omitempty"` // base64, or empty for text
	Comment  string `json:"comment,omitempty"`  // why Text is missing
}

// Timings are milliseconds; -1 if they do not apply. Connect includes SSL.
type Timings struct {
	Blocked float64 `json:"blocked"`
	DNS     float64 `json:"dns"`
	Connect float64 `json:"connect"`
	Send    float64 `json:"send"`
	Wait    float64 `json:"wait"`
	Receive float64 `json:"receive"`
	SSL     float64 `json:"ssl"`
}

// Message is a message of a WebSocket.
type Message struct {
	Type   string  `json:"type"` // send or receive
	Time   float64 `json:"time"` // seconds since 1970
	Opcode int     `json:"opcode"`
	Data   string  `json:"data"` // text, or base64 for opcode 2
}
