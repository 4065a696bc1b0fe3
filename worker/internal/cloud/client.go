// Package cloud is the worker's way to the cloud: the generated client with
// deadlines, and every answer turned into a value or a fault. What is not
// clearly a permission is not one (specification 3.2: fail closed).
package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/report"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/tracing"
)

// Timeout bounds one call.
const Timeout = 10 * time.Second

// Machine is who the worker is to the cloud.
type Machine struct {
	ID     string    // of the host
	BootID uuid.UUID // of this run of the worker
	// Predecessors are the runs that have ended before this one, the latest first;
	// nil where nobody knows.
	Predecessors []uuid.UUID
}

// Client calls the cloud, with the worker's own organization key where a call
// brings none.
type Client struct {
	api       *cloudapi.ClientWithResponses
	own       session.OrganizationKey
	machine   Machine
	timeout   time.Duration // of one call
	contracts *contractTransport

	status     *licenseStatus
	introduced *introducedKeys
}

// New returns a client of the cloud at that address. The key is the worker's
// own; empty for a worker that launches with its callers' keys alone. How the
// cloud's contract fits is logged when it changes.
func New(address, key string, machine Machine, log *slog.Logger) (*Client, error) {
	transport := &http.Transport{
		DialContext:           (&net.Dialer{Timeout: 3 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		Proxy:                 http.ProxyFromEnvironment,
		TLSHandshakeTimeout:   5 * time.Second,
		MaxIdleConnsPerHost:   16,
		IdleConnTimeout:       90 * time.Second,
		ForceAttemptHTTP2:     true,
		ResponseHeaderTimeout: Timeout,
	}
	heard := &contractTransport{RoundTripper: tracing.Transport(transport), contractMonitor: newContractMonitor(log)}
	client := &http.Client{
		Timeout: Timeout, Transport: heard,
		// Followed, a redirect would take the organization key along to wherever it leads.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	api, err := cloudapi.NewClientWithResponses(address, cloudapi.WithHTTPClient(client))
	if err != nil {
		return nil, fmt.Errorf("cloud address: %w", err)
	}
	return &Client{
		api: api, own: session.NewOrganizationKey(key), machine: machine, timeout: Timeout, contracts: heard,
		status: &licenseStatus{state: LicenseUnreachable}, introduced: &introducedKeys{},
	}, nil
}

// contracts notes in which contract an answer is. One in another major version is
// not handed on.
type contractTransport struct {
	http.RoundTripper
	*contractMonitor
}

// RoundTrip implements http.RoundTripper.
func (h *contractTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := h.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if err := h.check(answer); err != nil {
		_ = answer.Body.Close()
		return nil, err
	}
	return answer, nil
}

// Identity implements report.Cloud.
func (c *Client) Identity() report.Identity {
	return report.Identity{BootID: c.machine.BootID, Key: c.own}
}

// credential is the key that a call is made with.
type credential struct {
	key        session.OrganizationKey
	fromCaller bool // a caller brought it: the cloud's no to it is the caller's
}

func (c *Client) credential(key session.OrganizationKey) credential {
	if key.IsZero() {
		return credential{key: c.own}
	}
	return credential{key: key, fromCaller: true}
}

// sign puts the key on a request.
func (k credential) sign(_ context.Context, r *http.Request) error {
	r.Header.Set("X-API-Key", k.key.Reveal())
	return nil
}

// callFault is the fault of a call that got no answer, or one that could not
// be read.
func callFault(err error) *fault.Error {
	if f := incompatibleFault(err); f != nil {
		return f
	}
	if _, ok := errors.AsType[*url.Error](err); ok {
		return fault.Wrap(errors.Join(report.ErrNoAnswer, err), fault.Unavailable, "The cloud cannot be reached.")
	}
	return invalidAnswer(err)
}

func invalidAnswer(err error) *fault.Error {
	return fault.Wrap(err, fault.Unavailable, "The cloud's answer was not understood.")
}

// answerFault is the fault of an answer that is not the success the caller hoped
// for. The failure envelope is read by whatever status it comes: a newer cloud
// may have more of them.
func (k credential) answerFault(response *http.Response, body []byte) *fault.Error {
	status := response.StatusCode
	var envelope sharedapi.ErrorResponse
	if status >= http.StatusBadRequest && isJSON(response) && json.Unmarshal(body, &envelope) == nil && envelope.Error.Code != "" {
		return k.errorFault(status, envelope.Error)
	}
	return invalidAnswer(fmt.Errorf("status %d", status))
}

// errorFault gives the worker's client what the cloud said, where it is the
// client's business.
func (k credential) errorFault(status int, said sharedapi.Error) *fault.Error {
	cause := fmt.Errorf("the cloud answered %d %s: %s", status, said.Code, said.Message)
	if k.fromCaller && status == http.StatusUnauthorized {
		return fault.Wrap(cause, fault.Unauthenticated, "The organization key is not valid.")
	}
	if k.fromCaller && status == http.StatusForbidden {
		return fault.Wrap(cause, fault.Forbidden, "The organization key may not do this.")
	}
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return ownKeyRefused(cause)
	case http.StatusBadRequest:
		return fault.Wrap(cause, fault.Validation, said.Message, details(said)...)
	case http.StatusPaymentRequired:
		return fault.Wrap(cause, fault.PaymentRequired, said.Message, details(said)...)
	case http.StatusNotFound:
		return fault.Wrap(cause, fault.NotFound, said.Message)
	case http.StatusConflict:
		return fault.Wrap(cause, fault.Conflict, said.Message)
	default:
		return fault.Wrap(cause, fault.Unavailable, "The cloud cannot answer right now.")
	}
}

// ownKeyRefused is the fault of a call with the worker's own key, which the
// cloud refuses. To try again does not help, so its code is one that clients do
// not retry (specification 7.1).
func ownKeyRefused(cause error) *fault.Error {
	return fault.Wrap(cause, fault.OwnKeyRefused, "The cloud refuses this worker's organization key (SVC_KEY). The operator must replace it.", fault.Detail{
		Field: "SVC_KEY", Code: fault.Custom, Message: "was revoked, has expired or is wrong: set SVC_KEY of this worker to a valid key and restart it",
	})
}

// errNoKey is the fault of a call that needs the worker's own key, of a worker
// that has none.
func errNoKey() *fault.Error {
	return fault.New(fault.OwnKeyRefused, "This worker has no organization key (SVC_KEY). The operator must set one.", fault.Detail{
		Field: "SVC_KEY", Code: fault.Custom, Message: "is not set: set SVC_KEY of this worker and restart it, or launch over /launch with a key of your own",
	})
}

func details(said sharedapi.Error) []fault.Detail {
	if said.Details == nil {
		return nil
	}
	var found []fault.Detail
	for _, d := range *said.Details {
		detail := fault.Detail{Field: d.Field, Code: string(d.Code), Message: d.Message, Received: d.Received}
		if d.Constraint != nil {
			detail.Constraint = *d.Constraint
		}
		found = append(found, detail)
	}
	return found
}
