package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/browsers/profile"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/settings"
)

// tenant is an organization with a key and a profile, in the form that the servers
// without a database receive it.
type tenant struct {
	Org, KeyID, Profile uuid.UUID
	Key                 string
	Limit               *int // of slots; nil is unlimited
	Taken               int  // of them at the start
	LogLevel            slog.Level
	Config              *cloudapi.ProfileConfig `json:",omitempty"` // the profile in its API form, for the baseline server
}

// keyLength is the length of an organization key without its prefix.
const keyLength = 32

// tenant creates one. With a limit all of its slots are in use.
func (d database) tenant(ctx context.Context, limit int) (t tenant, err error) {
	t = tenant{KeyID: newID(), Profile: newID(), Key: "svc_" + strings.ToLower(rand.Text() + rand.Text())[:keyLength]}
	if t.Org, err = d.organization(ctx, limit); err != nil {
		return t, err
	}
	if limit != unlimited {
		t.Limit, t.Taken = &limit, limit
	}
	hash := sha256.Sum256([]byte(t.Key))
	_, err = d.pool.ExecContext(ctx, `
		INSERT INTO api_keys (id, organization_id, name, key_hash, prefix, last_four, created_at)
		VALUES ($1, $2, 'Bench', $3, 'svc_', 'last', now())`, t.KeyID, t.Org, hash[:])
	if err != nil {
		return t, err
	}
	fields := fields()
	settings, err := json.Marshal(fields.Settings)
	if err != nil {
		return t, err
	}
	_, err = d.pool.ExecContext(ctx, `
		INSERT INTO profiles (id, organization_id, name, browser_version, os, settings, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, now(), now())`, t.Profile, t.Org, fields.Name, fields.BrowserVersion, fields.OS, string(settings))
	if err != nil || t.Taken == 0 {
		return t, err
	}
	_, err = d.pool.ExecContext(ctx, `
		INSERT INTO license_slots (id, organization_id, session_id, profile_id, machine_id, boot_id, state, launch_id, browser_version,
			reserved_at, started_at, lease_until)
		SELECT gen_random_uuid(), $1, gen_random_uuid(), $2, 'worker-1', $1, 'running', gen_random_uuid(), 156,
			now(), now(), now() + interval '1 hour' FROM generate_series(1, $3::int)`, t.Org, t.Profile, t.Taken)
	if err != nil {
		return t, err
	}
	return t, d.recount(ctx)
}

// fields returns the settings of a typical profile.
func fields() profile.Fields {
	return profile.Fields{
		Name: "Checkout in German", BrowserVersion: 156, OS: new("linux"),
		Settings: settings.Settings{
			Emulation: settings.Emulation{Locale: "de-DE", TimezoneID: "Europe/Berlin", Viewport: &settings.Size{Width: 1280, Height: 720}},
			Options:   settings.Options{StartURLs: []string{"https://example.com/"}},
		},
	}
}

// stored returns the profile as the database would.
func (t tenant) stored() profile.Config {
	return profile.Config{Profile: profile.Profile{ID: t.Profile, OrganizationID: t.Org, Fields: fields(), Version: 1}}
}

// authorize sends one authorize request and returns the answer.
func (t tenant) authorize(ctx context.Context, server *child) (cloudapi.Authorization, error) {
	conns, closeAll, err := connect(ctx, server.address, 1)
	if err != nil {
		return cloudapi.Authorization{}, err
	}
	defer closeAll()
	conns[0].keep = true
	status, err := conns[0].do(t.requestTemplate().next())
	if err != nil {
		return cloudapi.Authorization{}, err
	}
	var answer cloudapi.AuthorizeResponse
	if err := json.Unmarshal(conns[0].body, &answer); err != nil || !answer.Success {
		return answer.Data, fmt.Errorf("%s answered %d: %s", server.name, status, conns[0].body)
	}
	return answer.Data, nil
}

// requireSameAnswers fails unless all servers give the same answer, so that their work
// is comparable.
func (t tenant) requireSameAnswers(ctx context.Context, servers ...*child) error {
	var first []byte
	for _, server := range servers {
		verdict, err := t.authorize(ctx, server)
		if err != nil {
			return err
		}
		verdict.SlotId, verdict.Current = nil, 0
		text, err := json.Marshal(verdict)
		if err != nil {
			return err
		}
		if first == nil {
			first = text
		}
		if !bytes.Equal(first, text) {
			return fmt.Errorf("%s answers\n%s\nand %s\n%s", servers[0].name, first, server.name, text)
		}
	}
	return nil
}
