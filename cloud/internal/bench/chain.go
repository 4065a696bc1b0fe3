package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/api/access"
	"github.com/browser-svc/svc/cloud/internal/api/rest"
	"github.com/browser-svc/svc/cloud/internal/app"
	"github.com/browser-svc/svc/cloud/internal/browsers/profile"
	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/cloud/internal/tenancy/apikey"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/oapi"
	"github.com/browser-svc/svc/shared/program"
)

// serveChain is the cloud's HTTP server with keys, profiles and licenses in memory. It
// reads a tenant and prints its address.
func serveChain(ctx context.Context, in io.Reader, out io.Writer) error {
	t, listener, err := readTenant(ctx, in, out)
	if err != nil {
		return err
	}
	document, err := oapi.Parse(cloudapi.Document)
	if err != nil {
		return err
	}
	door, err := access.New(nil, keyring{sha256.Sum256([]byte(t.Key)): {KeyID: t.KeyID, OrgID: t.Org}}, nil,
		&url.URL{Scheme: "http", Host: listener.Addr().String()})
	if err != nil {
		return err
	}
	logger, err := program.Logging{Level: t.LogLevel, Format: "text"}.New(os.Stderr)
	if err != nil {
		return err
	}
	options := httpd.Options{Logger: logger, Document: document, Name: "chain"}
	web, err := app.NewRouter(options, document, door, nil)
	if err != nil {
		return err
	}
	licenses := &inMemory{limit: t.Limit}
	licenses.taken.Store(int64(t.Taken))
	cloudapi.RegisterHandlers(web, cloudapi.NewStrictHandler(rest.Server{
		License: rest.License{Licenses: licenses, Profiles: oneProfile{config: t.stored()}},
	}, nil))
	return httpd.Serve(ctx, listener, web, options)
}

// readTenant reads the tenant to serve, and listens.
func readTenant(ctx context.Context, in io.Reader, out io.Writer) (t tenant, _ net.Listener, err error) {
	if err := json.NewDecoder(in).Decode(&t); err != nil {
		return t, nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return t, nil, err
	}
	_, err = fmt.Fprintln(out, listener.Addr())
	return t, listener, err
}

// keyring maps the hashes of keys to their identities.
type keyring map[[sha256.Size]byte]apikey.Identity

// Verify implements access.Keys.
func (k keyring) Verify(_ context.Context, secret string) (apikey.Identity, error) {
	identity, ok := k[sha256.Sum256([]byte(secret))]
	if !ok {
		return apikey.Identity{}, fault.New(fault.Unauthenticated, "The organization key is invalid, revoked or expired.")
	}
	return identity, nil
}

// Recall implements access.Keys.
func (k keyring) Recall(secret string) (apikey.Identity, bool) {
	identity, ok := k[sha256.Sum256([]byte(secret))]
	return identity, ok
}

// inMemory counts slots without recording who holds them.
type inMemory struct {
	*license.Service // methods that are not measured
	limit            *int
	taken            atomic.Int64
}

// Authorize takes a slot if one is free.
func (m *inMemory) Authorize(_ context.Context, req license.Request) (license.Grant, error) {
	if taken := int(m.taken.Load()); m.limit != nil && taken >= *m.limit {
		return license.Grant{Reason: license.ConcurrencyLimit, Current: taken, Limit: m.limit}, nil
	}
	id, err := uuid.NewV7()
	return license.Grant{
		Allowed: true, Current: int(m.taken.Add(1)), Limit: m.limit, SlotID: id, ProfileID: req.ProfileID,
	}, err
}

// oneProfile knows one profile.
type oneProfile struct {
	*profile.Service // methods that are not measured
	config           profile.Config
}

// Config returns the configuration of the profile.
func (p oneProfile) Config(_ context.Context, _, id uuid.UUID) (profile.Config, error) {
	if id != p.config.ID {
		return profile.Config{}, fault.Missing("profile")
	}
	return p.config, nil
}
