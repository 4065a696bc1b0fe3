// Package cloud is the worker's way to the cloud: the generated client with
// deadlines, and every answer turned into a value or a fault. What is not
// clearly a permission is not one (specification 3.2: fail closed).
package cloud

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/shared/fault"
)

// Timeout bounds one call.
const Timeout = 10 * time.Second

// Machine is who the worker is to the cloud.
type Machine struct {
	ID     string    // of the host
	BootID uuid.UUID // of this run of the worker
}

// Client calls the cloud with the organization key.
type Client struct {
	api     *cloudapi.ClientWithResponses
	machine Machine
	timeout time.Duration // of one call
}

// New returns a client of the cloud at that address. The key is the
// organization's.
func New(address, key string, machine Machine) (*Client, error) {
	transport := &http.Transport{
		DialContext:           (&net.Dialer{Timeout: 3 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		Proxy:                 http.ProxyFromEnvironment,
		TLSHandshakeTimeout:   5 * time.Second,
		MaxIdleConnsPerHost:   16,
		IdleConnTimeout:       90 * time.Second,
		ForceAttemptHTTP2:     true,
		ResponseHeaderTimeout: Timeout,
	}
	withKey := func(_ context.Context, r *http.Request) error {
		r.Header.Set("X-API-Key", key)
		return nil
	}
	client := &http.Client{
		Timeout: Timeout, Transport: transport,
		// Followed, a redirect would take the organization key along to wherever it leads.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	api, err := cloudapi.NewClientWithResponses(address, cloudapi.WithHTTPClient(client), cloudapi.WithRequestEditorFn(withKey))
	if err != nil {
		return nil, fmt.Errorf("cloud address: %w", err)
	}
	return &Client{api: api, machine: machine, timeout: Timeout}, nil
}

// unreachable is the fault of a call that got no answer, or one that could not
// be read.
func unreachable(err error) *fault.Error {
	if _, ok := errors.AsType[*url.Error](err); ok {
		return fault.Wrap(err, fault.Unavailable, "The cloud cannot be reached.")
	}
	return notUnderstood(err)
}

func notUnderstood(err error) *fault.Error {
	return fault.Wrap(err, fault.Unavailable, "The cloud's answer was not understood.")
}

// refusal is the fault of an answer that is not the success the caller hoped
// for. envelopes are what the generated client could read of it; at most one is
// set.
func refusal(response *http.Response, envelopes ...*sharedapi.ErrorResponse) *fault.Error {
	status := response.StatusCode
	for _, envelope := range envelopes {
		if envelope != nil && envelope.Error.Code != "" {
			return passOn(status, envelope.Error)
		}
	}
	return notUnderstood(fmt.Errorf("status %d", status))
}

// passOn gives the worker's client what the cloud said, where it is the
// client's business.
func passOn(status int, said sharedapi.Error) *fault.Error {
	cause := fmt.Errorf("the cloud answered %d %s: %s", status, said.Code, said.Message)
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fault.Wrap(cause, fault.BadGateway, "The cloud refuses this worker's organization key.")
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
