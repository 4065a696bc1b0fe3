// Package replay is the HTTP side of idempotency: the middleware that claims a
// request's Idempotency-Key, keeps the answer, and gives it again. The requests
// of clients that send no key pass it untouched.
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

	"github.com/browser-svc/svc/cloud/internal/auth"
	"github.com/browser-svc/svc/cloud/internal/idempotency"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/oapi"
)

const (
	keyHeader      = "Idempotency-Key"
	replayedHeader = "Idempotent-Replayed"

	runTimeout   = idempotency.Lease - 10*time.Second // of a request, so that its claim outlives it
	storeTimeout = 5 * time.Second
)

// Store is where keys and answers are.
type Store interface {
	Begin(ctx context.Context, r idempotency.Request) (*idempotency.Claim, *idempotency.Answer, error)
	Complete(ctx context.Context, c *idempotency.Claim, a idempotency.Answer) error
	Release(ctx context.Context, c *idempotency.Claim) error
}

// Replayer gives first answers again.
type Replayer struct {
	store      Store
	logger     *slog.Logger
	operations map[string]bool // by method and Echo pattern; whether it shows a secret once
}

// New returns a Replayer for the guarded operations that have the parameter
// Idempotency-Key; on others the header means nothing. A parameter with
// x-shown-once is that of an operation whose success must not be kept: of it only
// the Location is.
func New(guard *oapi.Guard, store Store, logger *slog.Logger) *Replayer {
	r := &Replayer{store: store, logger: logger, operations: map[string]bool{}}
	for _, operation := range guard.OperationsWithHeader(keyHeader) {
		r.operations[operation.Method+" "+pattern(operation.Path)] = operation.ShownOnce
	}
	return r
}

// pattern is a path of the document as Echo writes it.
func pattern(template string) string {
	return strings.NewReplacer("{", ":", "}", "").Replace(template)
}

// Middleware must come after the guard, which has found out who calls, and has
// bounded and checked the request.
func (r *Replayer) Middleware(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		key := c.Request().Header.Get(keyHeader)
		once, known := r.operations[c.Request().Method+" "+c.Path()]
		if key == "" || !known {
			return next(c)
		}
		request, err := identify(c, key)
		if err != nil {
			return err
		}
		claim, kept, err := r.store.Begin(c.Request().Context(), request)
		switch {
		case err != nil:
			return err
		case kept != nil && once:
			return errShownOnce(kept)
		case kept != nil:
			return replayAnswer(c, kept)
		default:
			return r.runFirst(c, next, claim, once)
		}
	}
}

// identify says who sent the key with which request, and puts the body back.
func identify(c echo.Context, key string) (idempotency.Request, error) {
	r := c.Request()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return idempotency.Request{}, fmt.Errorf("read the body: %w", err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	sum := sha256.New()
	for _, part := range [][]byte{[]byte(r.Method), []byte(r.URL.EscapedPath()), []byte(r.URL.RawQuery), body} {
		_ = binary.Write(sum, binary.BigEndian, int64(len(part))) // a hash takes everything
		sum.Write(part)
	}
	return idempotency.Request{Scope: scope(c), Key: key, Fingerprint: [sha256.Size]byte(sum.Sum(nil))}, nil
}

// scope is who calls, and in which organization: an answer never leaves it. Of a
// caller whom nobody has authenticated only the address is known.
func scope(c echo.Context) string {
	caller := auth.CallerFrom(c.Request().Context())
	switch {
	case caller.UserID != uuid.Nil:
		return "user " + caller.UserID.String() + " in " + caller.OrgID.String()
	case caller.KeyID != uuid.Nil:
		return "key " + caller.KeyID.String()
	default:
		return "address " + c.RealIP()
	}
}

// runFirst runs the request and keeps its answer, or of one with a secret only what
// it made, or frees the key, before the client has the answer: who asks again
// finds it so. It goes on when the client hangs up, since that is a client who
// will ask again.
func (r *Replayer) runFirst(c echo.Context, next echo.HandlerFunc, claim *idempotency.Claim, once bool) error {
	request, response := c.Request(), c.Response()
	client, before := response.Writer, response.Header().Clone()
	held := &recorder{header: response.Header()}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(request.Context()), runTimeout)
	defer cancel()
	settled := false
	defer func() { // runs on a panic too, which then goes on
		response.Writer = client
		c.SetRequest(request)
		if !settled {
			r.release(ctx, claim)
		}
	}()
	response.Writer = held
	c.SetRequest(request.WithContext(ctx))
	err := next(c)
	if err != nil {
		c.Error(err) // the answer to it is an answer too
	}
	settled = true
	if held.status != 0 && idempotency.Storable(held.status) {
		answer := idempotency.Answer{Status: held.status, Header: addedHeaders(before, held.header), Body: held.body.Bytes()}
		if once {
			answer = idempotency.Answer{Status: held.status, Header: map[string][]string{echo.HeaderLocation: held.header.Values(echo.HeaderLocation)}}
		}
		r.storeAnswer(ctx, claim, answer)
	} else {
		r.release(ctx, claim)
	}
	held.flush(client)
	return err
}

// addedHeaders is the headers that an answer has got since then; never a cookie.
func addedHeaders(before, now http.Header) map[string][]string {
	fresh := map[string][]string{}
	for name, values := range now {
		if name != echo.HeaderSetCookie && !slices.Equal(values, before[name]) {
			fresh[name] = values
		}
	}
	return fresh
}

// errShownOnce refuses to make another key where the first answer has shown one.
func errShownOnce(a *idempotency.Answer) error {
	id := path.Base(http.Header(a.Header).Get(echo.HeaderLocation))
	return fault.New(fault.Conflict,
		"The first request with this Idempotency-Key made the key "+id+". Its text was shown once and is not kept: rotate or revoke it if that is lost.",
		fault.Detail{Field: keyHeader, Code: fault.Custom, Message: "has made a key already", Constraint: map[string]any{"keyId": id}})
}

// replayAnswer gives an answer that was kept.
func replayAnswer(c echo.Context, a *idempotency.Answer) error {
	header := c.Response().Header()
	maps.Copy(header, a.Header)
	header.Set(replayedHeader, "true")
	c.Response().WriteHeader(a.Status)
	_, _ = c.Response().Write(a.Body) // a failed write has no one to be told
	return nil
}

// storeAnswer keeps an answer. When it can't, the client gets it all the same, and the
// key is free again after its claim.
func (r *Replayer) storeAnswer(ctx context.Context, claim *idempotency.Claim, a idempotency.Answer) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := r.store.Complete(ctx, claim, a); err != nil {
		r.logger.ErrorContext(ctx, "the answer to an idempotency key is lost", "error", err)
	}
}

func (r *Replayer) release(ctx context.Context, claim *idempotency.Claim) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := r.store.Release(ctx, claim); err != nil {
		r.logger.ErrorContext(ctx, "an idempotency key stays claimed for a while", "error", err)
	}
}

// recorder holds an answer back.
type recorder struct {
	header http.Header // the client's own
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

// flush gives the answer to the client, if there is one.
func (r *recorder) flush(client http.ResponseWriter) {
	if r.status == 0 {
		return
	}
	client.WriteHeader(r.status)
	_, _ = client.Write(r.body.Bytes()) // a failed write has no one to be told
}
