// Package replay is the HTTP part of idempotency: middleware that claims a request's
// Idempotency-Key, stores the answer, and replays it. Requests without a key are not
// affected.
package replay

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/platform/idempotency"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/oapi"
)

const (
	keyHeader      = "Idempotency-Key"
	replayedHeader = "Idempotent-Replayed"

	runTimeout   = idempotency.Lease - 10*time.Second // of a request; shorter than its claim
	storeTimeout = 5 * time.Second
)

// Store holds keys and answers.
type Store interface {
	Begin(ctx context.Context, r idempotency.Request) (*idempotency.Claim, *idempotency.Answer, error)
	Complete(ctx context.Context, c *idempotency.Claim, a idempotency.Answer) error
	Release(ctx context.Context, c *idempotency.Claim) error
}

// Replayer replays first answers.
type Replayer struct {
	store      Store
	logger     *slog.Logger
	operations map[string]bool // by method and Echo path; true if the answer contains a secret
}

// New returns a Replayer for the guarded operations that have the parameter
// Idempotency-Key; other operations ignore the header. x-shown-once marks an operation
// whose answer contains a secret: only its Location is stored.
func New(guard *oapi.Guard, store Store, logger *slog.Logger) *Replayer {
	r := &Replayer{store: store, logger: logger, operations: map[string]bool{}}
	for _, operation := range guard.OperationsWithHeader(keyHeader) {
		r.operations[operation.Method+" "+pattern(operation.Path)] = operation.ShownOnce
	}
	return r
}

// pattern converts a path of the document to Echo's syntax.
func pattern(template string) string {
	return strings.NewReplacer("{", ":", "}", "").Replace(template)
}

// Middleware must follow the guard, which authenticates the caller, limits the
// request's size and validates it.
func (r *Replayer) Middleware(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		key := c.Request().Header.Get(keyHeader)
		once, ok := r.operations[c.Request().Method+" "+c.Path()]
		if key == "" || !ok {
			return next(c)
		}
		request, err := identify(c, key)
		if err != nil {
			return err
		}
		claim, answer, err := r.store.Begin(c.Request().Context(), request)
		switch {
		case err != nil:
			return err
		case answer != nil && once:
			return errShownOnce(answer)
		case answer != nil:
			return replayAnswer(c, answer)
		default:
			return r.runFirst(c, next, claim, once)
		}
	}
}

// identify returns the key, its scope and the fingerprint of the request. It restores
// the body.
func identify(c echo.Context, key string) (idempotency.Request, error) {
	r := c.Request()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return idempotency.Request{}, fmt.Errorf("read the body: %w", err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	sum := sha256.New()
	for _, part := range [][]byte{[]byte(r.Method), []byte(r.URL.EscapedPath()), []byte(r.URL.RawQuery), body} {
		_ = binary.Write(sum, binary.BigEndian, int64(len(part))) // a hash does not fail
		sum.Write(part)
	}
	return idempotency.Request{Scope: scope(c), Key: key, Fingerprint: [sha256.Size]byte(sum.Sum(nil))}, nil
}

// scope identifies the caller and the organization: an answer is never returned
// outside of it. An unauthenticated caller is identified by its address.
func scope(c echo.Context) string {
	caller := auth.CallerFrom(c.Request().Context())
	switch {
	case caller.UserID != uuid.Nil:
		return "user " + caller.UserID.String() + " in " + caller.OrgID.String()
	case caller.ServiceAccount != nil:
		return "service account " + caller.ServiceAccount.ID.String()
	case caller.KeyID != uuid.Nil:
		return "key " + caller.KeyID.String()
	default:
		return "address " + c.RealIP()
	}
}

// runFirst runs the request and stores its answer, only the Location for an answer
// with a secret, or releases the key. It does so before the client receives the
// answer, so that a retry finds the result. The request continues if the client
// disconnects, since such a client will retry.
func (r *Replayer) runFirst(c echo.Context, next echo.HandlerFunc, claim *idempotency.Claim, once bool) error {
	request, response := c.Request(), c.Response()
	client, before := response.Writer, response.Header().Clone()
	rec := &recorder{header: response.Header()}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(request.Context()), runTimeout)
	defer cancel()
	settled := false
	defer func() { // also runs on a panic, which then continues
		response.Writer = client
		c.SetRequest(request)
		if !settled {
			r.release(ctx, claim)
		}
	}()
	response.Writer = rec
	c.SetRequest(request.WithContext(ctx))
	err := next(c)
	if err != nil {
		c.Error(err) // the error response may be stored, too
	}
	settled = true
	if rec.status != 0 && idempotency.Storable(rec.status) {
		answer := idempotency.Answer{Status: rec.status, Header: addedHeaders(before, rec.header), Body: rec.body.Bytes()}
		if once {
			answer = idempotency.Answer{Status: rec.status, Header: map[string][]string{echo.HeaderLocation: rec.header.Values(echo.HeaderLocation)}}
		}
		r.storeAnswer(ctx, claim, answer)
	} else {
		r.release(ctx, claim)
	}
	rec.flush(client)
	return err
}

// addedHeaders returns the headers that the operation added, without cookies.
func addedHeaders(before, now http.Header) map[string][]string {
	fresh := map[string][]string{}
	for name, values := range now {
		if name != echo.HeaderSetCookie && !slices.Equal(values, before[name]) {
			fresh[name] = values
		}
	}
	return fresh
}

// errShownOnce refuses to create another key if the first answer contained one.
func errShownOnce(a *idempotency.Answer) error {
	id := path.Base(http.Header(a.Header).Get(echo.HeaderLocation))
	return fault.New(fault.Conflict,
		"The first request with this Idempotency-Key created the key "+id+". Its secret is shown only once. If it is lost, rotate or revoke the key.",
		fault.Detail{Field: keyHeader, Code: fault.Custom, Message: "has already created a key", Constraint: map[string]any{"keyId": id}})
}

// replayAnswer sends a stored answer.
func replayAnswer(c echo.Context, a *idempotency.Answer) error {
	header := c.Response().Header()
	maps.Copy(header, a.Header)
	header.Set(replayedHeader, "true")
	c.Response().WriteHeader(a.Status)
	_, _ = c.Response().Write(a.Body) // the client has disconnected
	return nil
}

// storeAnswer stores an answer. If that fails, the client still gets the answer, and
// the key is free again after its claim expires.
func (r *Replayer) storeAnswer(ctx context.Context, claim *idempotency.Claim, a idempotency.Answer) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := r.store.Complete(ctx, claim, a); err != nil {
		r.logger.ErrorContext(ctx, "failed to store idempotent answer", "error", err)
	}
}

func (r *Replayer) release(ctx context.Context, claim *idempotency.Claim) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := r.store.Release(ctx, claim); err != nil {
		r.logger.ErrorContext(ctx, "failed to release idempotency key", "error", err)
	}
}

// recorder buffers an answer.
type recorder struct {
	header http.Header // of the client's response
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(b)
}

// flush sends the answer to the client, if there is one.
func (r *recorder) flush(client http.ResponseWriter) {
	if r.status == 0 {
		return
	}
	client.WriteHeader(r.status)
	_, _ = client.Write(r.body.Bytes()) // the client has disconnected
}
