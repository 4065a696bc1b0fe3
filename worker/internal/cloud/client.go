package cloud

import (
	"context"
	"crypto/tls"
	"crypto/x509"
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
	"github.com/browser-svc/svc/shared/oapi"
	"github.com/browser-svc/svc/shared/tracing"
	"github.com/browser-svc/svc/worker/internal/cloud/report"
	"github.com/browser-svc/svc/worker/internal/session"
)

// Timeout is the timeout of one call, in addition to the time that it can wait.
const Timeout = 10 * time.Second

// Machine identifies the worker to the cloud.
type Machine struct {
	ID     string    // of the host
	BootID uuid.UUID // of this run of the worker
	// Predecessors are the earlier runs of this machine, newest first; nil if unknown.
	Predecessors []uuid.UUID
}

// Client calls the cloud with the caller's organization key or, by default,
// with the worker's own key.
type Client struct {
	api       *cloudapi.ClientWithResponses
	own       session.OrganizationKey
	machine   Machine
	timeout   time.Duration // of one call
	contracts *contractTransport
	meter     *meter

	status         *licenseStatus
	introduced     *introducedKeys
	machineReports *machineReports
}

// New returns a client for the cloud at address. key is the worker's own
// organization key, empty for a worker that uses only its callers' keys. roots are the
// trusted certificate authorities; nil for those of the system. Changes of the cloud's contract version are logged.
// Calls are part of the traces in their contexts.
func New(address, key string, machine Machine, roots *x509.CertPool, traces *tracing.Tracing, log *slog.Logger) (*Client, error) {
	transport := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 3 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		Proxy:               http.ProxyFromEnvironment,
		TLSClientConfig:     &tls.Config{RootCAs: roots},
		TLSHandshakeTimeout: 5 * time.Second,
		MaxIdleConnsPerHost: 16,
		IdleConnTimeout:     90 * time.Second,
		ForceAttemptHTTP2:   true,
	}
	measured := &meter{RoundTripper: traces.Transport(transport)}
	contracts := &contractTransport{RoundTripper: measured, contractMonitor: newContractMonitor(log)}
	client := &http.Client{ // without a timeout: each call has its own
		Transport: contracts,
		// Following a redirect would send the organization key to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	api, err := cloudapi.NewClientWithResponses(address, cloudapi.WithHTTPClient(client))
	if err != nil {
		return nil, fmt.Errorf("cloud address: %w", err)
	}
	return &Client{
		api: api, own: session.NewOrganizationKey(key), machine: machine, timeout: Timeout, contracts: contracts, meter: measured,
		status: &licenseStatus{state: LicenseUnreachable}, introduced: &introducedKeys{}, machineReports: &machineReports{},
	}, nil
}

// contractTransport checks the contract version of each answer. It returns an
// error for answers with another major version.
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

// credential is the organization key of a call.
type credential struct {
	key        session.OrganizationKey
	fromCaller bool // a refusal of the key is returned to the caller
}

func (c *Client) credential(key session.OrganizationKey) credential {
	if key.IsZero() {
		return credential{key: c.own}
	}
	return credential{key: key, fromCaller: true}
}

// sign sets the API key header of a request.
func (k credential) sign(_ context.Context, r *http.Request) error {
	r.Header.Set("X-API-Key", k.key.Reveal())
	return nil
}

// callFault converts the error of a call that got no answer or an unreadable
// one.
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
	return fault.Wrap(err, fault.Unavailable, "The cloud returned an invalid answer.")
}

// answerFault converts an answer other than the expected one. It reads the
// error envelope with any status, because a newer cloud may return new ones.
func (k credential) answerFault(response *http.Response, body []byte) *fault.Error {
	status := response.StatusCode
	var envelope sharedapi.ErrorResponse
	if status >= http.StatusBadRequest && isJSON(response) && json.Unmarshal(body, &envelope) == nil && envelope.Error.Code != "" {
		return k.errorFault(status, envelope.Error)
	}
	return invalidAnswer(fmt.Errorf("status %d", status))
}

// errorFault converts the cloud's error. Details that concern the worker's
// client are kept.
func (k credential) errorFault(status int, answer sharedapi.Error) *fault.Error {
	cause := fmt.Errorf("the cloud answered %d %s: %s", status, answer.Code, answer.Message)
	if k.fromCaller && status == http.StatusUnauthorized {
		if oapi.KindOfKey(k.key.Reveal()) == oapi.WorkerKey {
			return fault.Wrap(cause, fault.Unauthenticated, "The key is a worker key and not that of this worker. Launches need an organization key (svc_, from the dashboard).")
		}
		return fault.Wrap(cause, fault.Unauthenticated, "The organization key is not valid.")
	}
	if k.fromCaller && status == http.StatusForbidden {
		return fault.Wrap(cause, fault.Forbidden, "The organization key is not allowed to do this.")
	}
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return ownKeyRefused(cause)
	case http.StatusBadRequest:
		return fault.Wrap(cause, fault.Validation, answer.Message, details(answer)...)
	case http.StatusPaymentRequired:
		return fault.Wrap(cause, fault.PaymentRequired, answer.Message, details(answer)...)
	case http.StatusNotFound:
		return fault.Wrap(cause, fault.NotFound, answer.Message)
	case http.StatusConflict:
		return fault.Wrap(cause, fault.Conflict, answer.Message)
	default:
		return fault.Wrap(cause, fault.Unavailable, "The cloud is temporarily unavailable.")
	}
}

// ownKeyRefused is returned if the cloud refuses the worker's own key. Retrying
// does not help, so clients do not retry its code (specification 7.1).
func ownKeyRefused(cause error) *fault.Error {
	return fault.Wrap(cause, fault.OwnKeyRefused, "The cloud refuses this worker's organization key (SVC_KEY). The operator must replace it.", fault.Detail{
		Field: "SVC_KEY", Code: fault.Custom, Message: "was revoked, has expired or is wrong: set SVC_KEY of this worker to a valid key and restart it",
	})
}

// errNoKey is returned if a call needs the worker's own key and there is none.
func errNoKey() *fault.Error {
	return fault.New(fault.OwnKeyRefused, "This worker has no organization key (SVC_KEY). The operator must set one.", fault.Detail{
		Field: "SVC_KEY", Code: fault.Custom, Message: "is not set: set SVC_KEY of this worker and restart it, or launch over /launch with your own key",
	})
}

func details(answer sharedapi.Error) []fault.Detail {
	if answer.Details == nil {
		return nil
	}
	var found []fault.Detail
	for _, d := range *answer.Details {
		detail := fault.Detail{Field: d.Field, Code: string(d.Code), Message: d.Message, Received: d.Received}
		if d.Constraint != nil {
			detail.Constraint = *d.Constraint
		}
		found = append(found, detail)
	}
	return found
}
