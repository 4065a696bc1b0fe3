// Package audit writes a tamper-evident log of what happens in each session: its
// navigations, clicks, downloads, uses of secrets and handovers.
//
// A log is a file of JSON lines. Each line ends with a hash of its other bytes, which
// include the hash of the line before. The last line has a seal instead: a MAC with a key
// that is derived from the organization key of the session. A log without a seal proves
// nothing: a worker that was killed leaves one, and so does the removal of lines at the end. The
// worker never seals a log of an earlier run, which it cannot know to be unchanged.
//
// Callers never wait for the disk. A Log owns a goroutine that writes, and one for each
// source that it follows; all end with Close. The lock is held neither for I/O nor for calls.
package audit

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Kind is what an entry is about.
type Kind string

// The kinds.
const (
	kindStart      Kind = "start"
	kindNavigation Kind = "navigation"
	kindClick      Kind = "click"
	kindDownload   Kind = "download"
	kindSecret     Kind = "secret"
	kindHandover   Kind = "handover"
	kindQuestion   Kind = "question"
	kindLost       Kind = "lost"
	kindEnd        Kind = "end"
	kindSeal       Kind = "seal"
)

// Data is the content of an entry: one of the types below. Texts must be short, and must
// contain neither input nor secrets.
type Data interface{ kind() Kind }

// Start is the first entry.
type Start struct {
	SessionID      uuid.UUID `json:"sessionId"`
	LaunchID       uuid.UUID `json:"launchId"`
	ProfileID      uuid.UUID `json:"profileId"`
	MachineID      string    `json:"machineId"`
	WorkerVersion  string    `json:"workerVersion"`
	BrowserVersion int       `json:"browserVersion"`
	Engine         string    `json:"engine"`
	Key            string    `json:"key"` // set by Create: the id of the organization key
}

// Navigation is a new address of a tab.
type Navigation struct {
	TargetID string `json:"targetId"`
	URL      string `json:"url"`
}

// Click is a click on an element.
type Click struct {
	TargetID string `json:"targetId"`
	Role     string `json:"role"`
	Name     string `json:"name"` // the accessible name
}

// Download is the state of a download when it begins, when it ends, and when its checksum is
// known.
type Download struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Origin string `json:"origin"`
	State  string `json:"state"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256,omitempty"`
}

// Secret is a value that the worker got in order to fill a field.
type Secret struct {
	SecretID uuid.UUID `json:"secretId"`
	Field    string    `json:"field"`
	Origin   string    `json:"origin"`
}

// Handover is the start of a handover to a person, with Until, or its end, with Outcome.
type Handover struct {
	Until   time.Time `json:"until,omitzero"`
	Outcome string    `json:"outcome,omitempty"`
	Seconds float64   `json:"seconds,omitempty"`
}

// Question is how a question to a person ended: whether the browser may open a document.
type Question struct {
	Rule     string `json:"rule"`
	Origin   string `json:"origin"`
	Decision string `json:"decision"`
}

// Lost says that entries are missing here. Their number is 0 if it is not known.
type Lost struct {
	Entries int64  `json:"entries"`
	Source  string `json:"source,omitempty"` // whose events were lost
}

// End is the end of the session.
type End struct {
	Status string `json:"status"`
	Reason string `json:"reason"`
}

// Seal is the last entry.
type Seal struct {
	State State `json:"state"`
}

// State says whether a log has all entries.
type State string

// The states.
const (
	Complete   State = "complete"
	Incomplete State = "incomplete" // it has entries of the kind lost
)

func (Start) kind() Kind      { return kindStart }
func (Navigation) kind() Kind { return kindNavigation }
func (Click) kind() Kind      { return kindClick }
func (Download) kind() Kind   { return kindDownload }
func (Secret) kind() Kind     { return kindSecret }
func (Handover) kind() Kind   { return kindHandover }
func (Question) kind() Kind   { return kindQuestion }
func (Lost) kind() Kind       { return kindLost }
func (End) kind() Kind        { return kindEnd }
func (Seal) kind() Kind       { return kindSeal }

// Key seals and verifies the logs of an organization key, which it does not contain.
type Key struct {
	id   string
	seal []byte
}

// NewKey derives the Key of an organization key.
func NewKey(organizationKey string) (Key, error) {
	derive := func(purpose string, size int) ([]byte, error) {
		return hkdf.Key(sha256.New, []byte(organizationKey), nil, "svc audit log: "+purpose, size)
	}
	id, err := derive("id", 8)
	if err != nil {
		return Key{}, fmt.Errorf("audit: %w", err)
	}
	seal, err := derive("seal", sha256.Size)
	if err != nil {
		return Key{}, fmt.Errorf("audit: %w", err)
	}
	return Key{hex.EncodeToString(id), seal}, nil
}

func (k Key) mac(text []byte) string {
	h := hmac.New(sha256.New, k.seal)
	h.Write(text)
	return hex.EncodeToString(h.Sum(nil))
}

func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// entry is a line without its last field.
type entry struct {
	Seq      int64     `json:"seq"`
	At       time.Time `json:"at"`
	Kind     Kind      `json:"kind"`
	Data     any       `json:"data"`
	Previous string    `json:"previous"` // the hash of the line before
}

// The last fields. They authenticate the bytes before them.
const (
	hashField = "hash"
	sealField = "seal"
)

// line returns a line and the value of its last field.
func (e entry) line(field string, authenticate func([]byte) string) (line []byte, sum string, err error) {
	raw, err := json.Marshal(e)
	if err != nil {
		return nil, "", fmt.Errorf("audit: %w", err)
	}
	raw = raw[:len(raw)-1]
	sum = authenticate(raw)
	return fmt.Appendf(raw, `,"%s":"%s"}`+"\n", field, sum), sum, nil
}
