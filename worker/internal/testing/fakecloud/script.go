package fakecloud

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/shared/fault"
)

// Answer replaces the cloud's answer. If it writes nothing, the cloud answers
// afterwards.
type Answer func(w http.ResponseWriter, r *http.Request)

// Script sets the answers to the next calls of an operation, in order.
func (c *Cloud) Script(operation Operation, answers ...Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.script[operation] = append(c.script[operation], answers...)
}

// Always sets the answer to every call of an operation; nil removes it.
func (c *Cloud) Always(operation Operation, answer Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.always[operation] = answer
}

// AnswerForProfile sets the answer to every call of an operation with this profile;
// nil removes it. Answers of Script take precedence.
func (c *Cloud) AnswerForProfile(profile uuid.UUID, operation Operation, answer Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.profileAnswers[profileOperation{operation, profile}] = answer
}

// profileOperation is an operation with a profile.
type profileOperation struct {
	operation Operation
	profile   uuid.UUID
}

// Raw answers with this status, content type and body.
func Raw(status int, contentType, body string) Answer {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// JSON answers with this status and JSON body.
func JSON(status int, body string) Answer { return Raw(status, "application/json", body) }

// Failure answers with the failure envelope of a kind.
func Failure(kind fault.Kind, message string, details ...fault.Detail) Answer {
	body, err := json.Marshal(map[string]any{
		"success": false,
		"error":   map[string]any{"code": kind.Code(), "message": message, "details": append([]fault.Detail{}, details...)},
	})
	if err != nil {
		panic(err) // a detail that cannot be encoded
	}
	return JSON(kind.Status(), string(body))
}

// Reset resets the connection without an answer.
func Reset(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err) // the cloud uses HTTP/1.1
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// Down makes the cloud reset every connection, or answer again.
func (c *Cloud) Down(down bool) { c.set(func() { c.down = down }) }

// SetContractVersion sets the contract version of every answer; empty for none.
func (c *Cloud) SetContractVersion(contract string) { c.set(func() { c.contract = &contract }) }

// Revoke makes the organization key invalid, or valid again.
func (c *Cloud) Revoke(revoked bool) { c.RevokeKey(Key, revoked) }

// RevokeKey makes a key invalid, or valid again.
func (c *Cloud) RevokeKey(key string, revoked bool) { c.set(func() { c.revoked[key] = revoked }) }

// AddKey adds a valid key of the same organization: it shares the slots of Key.
func (c *Cloud) AddKey(key string) { c.set(func() { c.keys = append(c.keys, key) }) }

// Limit sets the number of slots.
func (c *Cloud) Limit(limit int) { c.set(func() { c.limit = &limit }) }

// HeartbeatEvery sets the heartbeat interval that the cloud requests, in whole seconds.
func (c *Cloud) HeartbeatEvery(next time.Duration) { c.set(func() { c.next = next }) }

// Forget removes a session: heartbeats report it as unknown until its start is
// reported again.
func (c *Cloud) Forget(session uuid.UUID) {
	c.set(func() { delete(c.slots, session); c.unknown = append(c.unknown, session) })
}

// Profile adds a profile, changed by the function, and returns its id.
func (c *Cloud) Profile(version int, change ...func(*cloudapi.ProfileConfig)) uuid.UUID {
	config := profileConfig(uuid.Must(uuid.NewV7()), version)
	config.Name = "Checkout"
	for _, apply := range change {
		apply(&config)
	}
	c.set(func() { c.profiles[config.ProfileId] = config })
	return config.ProfileId
}

func profileConfig(id uuid.UUID, version int) cloudapi.ProfileConfig {
	return cloudapi.ProfileConfig{
		ProfileId: id, BrowserVersion: sharedapi.BrowserVersion(version), Args: sharedapi.BrowserArgs{},
		ExtraHTTPHeaders: sharedapi.ExtraHttpHeaders{}, Metadata: sharedapi.Metadata{}, Permissions: sharedapi.Permissions{},
		StartUrls: sharedapi.StartUrls{}, CaCertificates: sharedapi.CaCertificates{}, ClientCertificates: cloudapi.LaunchClientCertificates{}, Record: sharedapi.RecordedParts{}, Version: 1,
	}
}

func (c *Cloud) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// Calls returns the accepted calls of these operations, or of all operations if none
// is given, in order.
func (c *Cloud) Calls(operations ...Operation) []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []Call
	for _, entry := range c.calls {
		if len(operations) == 0 || slices.Contains(operations, entry.Operation) {
			found = append(found, entry.Call)
		}
	}
	return found
}

// Log returns all accepted calls, in order.
func (c *Cloud) Log() []Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

// CallCount returns the number of authenticated calls of an operation, regardless of their
// answer.
func (c *Cloud) CallCount(operation Operation) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.callCounts[operation]
}

// Slots returns the numbers of reserved slots and of slots of running sessions.
func (c *Cloud) Slots() (reserved, running int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.slots {
		if s.running {
			running++
		} else {
			reserved++
		}
	}
	return reserved, running
}
