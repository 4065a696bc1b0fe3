// Package tap gives copies of what clients ask of a browser, and of the answers, to an observer: the trace of a recording.
// Senders never wait for it.
package tap

import (
	"cmp"
	"encoding/json"
	"net/http"
	"sync/atomic"
	"time"
)

// Client is a connection or a protocol of a client. Its address identifies it.
type Client struct {
	Name     string // of the program, or the kind of the connection
	TargetID string // of the page that a connection is limited to; "": none
}

// NewClient returns the client with the user agent of a request, or else with the kind of its connection.
func NewClient(r *http.Request, kind, targetID string) *Client {
	return &Client{Name: cmp.Or(r.UserAgent(), kind), TargetID: targetID}
}

// Kind is the kind of a Record.
type Kind int

// The kinds.
const (
	Command Kind = iota // of a client: a JSON object with id, method and params
	Answer              // to a command: a JSON object with id, and result or error
	Event               // Target.attachedToTarget, which names the target of a session
)

// Record is a copy of a message.
type Record struct {
	Client *Client
	Kind   Kind
	At     time.Time
	Data   []byte // the message, or its beginning
	Size   int    // of the message, in bytes
}

// Tap is the place where an observer gets records. The zero value is ready for use. It is safe for concurrent use; nil has no
// observer.
type Tap struct {
	observer atomic.Pointer[func(Record)]
	commands atomic.Int64 // of other protocols
}

// Observe gives all records to a function, which must not block, until stop is called. It takes the place of an earlier observer.
func (t *Tap) Observe(observe func(Record)) (stop func()) {
	p := &observe
	t.observer.Store(p)
	return func() { t.observer.CompareAndSwap(p, nil) }
}

// Active reports whether there is an observer.
func (t *Tap) Active() bool { return t != nil && t.observer.Load() != nil }

// Send gives a record to the observer.
func (t *Tap) Send(r Record) {
	if t == nil {
		return
	}
	if observe := t.observer.Load(); observe != nil {
		r.At = time.Now()
		(*observe)(r)
	}
}

// maxParams limits the parameters of a command of another protocol, in bytes. Longer ones are left out.
const maxParams = 32 << 10

// Start tells the observer of a command of another protocol than CDP: the protocol, a dot and the name of the command. The caller
// calls end with the result, or with why the command has failed.
func (t *Tap) Start(client *Client, method string, params json.RawMessage) (end func(result json.RawMessage, problem string)) {
	if !t.Active() {
		return func(json.RawMessage, string) {}
	}
	type object = map[string]any
	id := t.commands.Add(1)
	send := func(kind Kind, message object) {
		if raw, err := json.Marshal(message); err == nil { // else the parameters are not JSON
			t.Send(Record{Client: client, Kind: kind, Data: raw, Size: len(raw)})
		}
	}
	if len(params) > maxParams || len(params) == 0 || !json.Valid(params) {
		params = json.RawMessage("{}")
	}
	send(Command, object{"id": id, "method": method, "params": params})
	return func(result json.RawMessage, problem string) {
		switch {
		case problem != "":
			send(Answer, object{"id": id, "error": object{"message": problem}})
		case len(result) == 0 || len(result) > maxParams || !json.Valid(result):
			send(Answer, object{"id": id})
		default:
			send(Answer, object{"id": id, "result": result})
		}
	}
}
