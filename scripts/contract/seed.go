package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// seed contains the data that is created in the servers for a stage. It is written
// to seed.json for the stages that are separate programs.
type seed struct {
	CloudURL  string `json:"cloudUrl"`
	WorkerURL string `json:"workerUrl"`
	tenant           // the organization of the owner, the admin, the member and the worker; without limits
	Slug      string `json:"organizationSlug"`
	WorkerKey string `json:"workerKey"`

	MetricsToken string `json:"metricsToken"` // of both servers

	RevokedKey string    `json:"revokedKey"`
	Owner      *user     `json:"owner"`
	Admin      *user     `json:"admin"`
	Member     *user     `json:"member"`
	OtherUser  otherUser `json:"otherUser"`
	Full       tenant    `json:"full"` // another organization of the owner; all its slots are taken

	BrowserVersion int32  `json:"browserVersion"`
	MailDir        string `json:"mailDir"` // the directory to which the cloud writes mail
}

// otherUser is a user with a separate organization.
type otherUser struct {
	*user
	tenant
}

// create creates all data, and starts a worker as soon as its key exists.
func (p *seeder) create(ctx context.Context, startWorker func(ctx context.Context, organizationKey, workerKey string) error) (*seed, error) {
	s := &seed{CloudURL: p.cloudURL, WorkerURL: p.workerURL, MetricsToken: metricsToken, WorkerKey: "wrk_" + strings.ToLower(rand.Text())}
	var err error
	if s.Owner, err = p.newUser(ctx, "Owner"); err != nil {
		return nil, err
	}
	if err := p.verify(ctx, s.Owner); err != nil { // the owner creates more than one organization
		return nil, err
	}
	if s.tenant, err = p.newTenant(ctx, s.Owner, "Analytical Engines", "enterprise"); err != nil {
		return nil, err
	}
	if err := startWorker(ctx, s.OrganizationKey, s.WorkerKey); err != nil {
		return nil, err
	}
	if s.BrowserVersion, err = p.newestBrowser(ctx, s.WorkerKey); err != nil {
		return nil, err
	}
	if s.ProfileID, err = p.newProfile(ctx, s.Owner, s.BrowserVersion); err != nil {
		return nil, err
	}
	for _, rest := range []func(context.Context, *seed) error{p.createRevokedKey, p.createUsers, p.createFullOrganization} {
		if err := rest(ctx, s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (p *seeder) newestBrowser(ctx context.Context, workerKey string) (int32, error) {
	worker, err := p.worker(workerKey)
	if err != nil {
		return 0, err
	}
	installed, err := requireSuccess(worker.ListBrowserVersionsWithResponse(ctx))
	if err != nil {
		return 0, fmt.Errorf("list the browsers: %w", err)
	}
	if len(installed.JSON200.Data.Versions) == 0 {
		return 0, errors.New("no browser is installed")
	}
	return installed.JSON200.Data.Versions[0], nil
}

// createRevokedKey reads the organization's slug, and creates and revokes a key.
func (p *seeder) createRevokedKey(ctx context.Context, s *seed) error {
	organization, err := requireSuccess(s.Owner.api.GetOrganizationWithResponse(ctx, s.OrganizationID))
	if err != nil {
		return fmt.Errorf("read the organization: %w", err)
	}
	s.Slug = organization.JSON200.Data.Slug
	var id uuid.UUID
	if s.RevokedKey, id, err = p.newKey(ctx, s.Owner, s.OrganizationID); err != nil {
		return err
	}
	_, err = requireSuccess(s.Owner.api.RevokeApiKeyWithResponse(ctx, s.OrganizationID, id))
	return err
}

// createUsers creates the members of the organization, and a user of another organization.
func (p *seeder) createUsers(ctx context.Context, s *seed) (err error) {
	if s.Admin, err = p.newMember(ctx, s.Owner, s.OrganizationID, "admin"); err != nil {
		return err
	}
	if s.Member, err = p.newMember(ctx, s.Owner, s.OrganizationID, "member"); err != nil {
		return err
	}
	if s.OtherUser.user, err = p.newUser(ctx, "Other"); err != nil {
		return err
	}
	if err := p.verify(ctx, s.OtherUser.user); err != nil {
		return err
	}
	if s.OtherUser.tenant, err = p.newTenant(ctx, s.OtherUser.user, "Foreign Parts", "free"); err != nil {
		return err
	}
	s.OtherUser.ProfileID, err = p.newProfile(ctx, s.OtherUser.user, s.BrowserVersion)
	return err
}

// createFullOrganization creates an organization whose slots are all taken. After
// that, the first organization is the owner's active one again.
func (p *seeder) createFullOrganization(ctx context.Context, s *seed) (err error) {
	if s.Full, err = p.newTenant(ctx, s.Owner, "Full Organization", "free"); err != nil {
		return err
	}
	if s.Full.ProfileID, err = p.newProfile(ctx, s.Owner, s.BrowserVersion); err != nil {
		return err
	}
	stats, err := requireSuccess(s.Owner.api.GetProfileStatsWithResponse(ctx))
	if err != nil {
		return err
	}
	limit := stats.JSON200.Data.ProfileLimit
	if limit == nil {
		return errors.New("the free plan has no limit, so no organization can be full")
	}
	for range *limit {
		if _, err := p.newSession(ctx, s.Full, s.BrowserVersion); err != nil {
			return fmt.Errorf("take a slot: %w", err)
		}
	}
	_, err = requireSuccess(s.Owner.api.ActivateOrganizationWithResponse(ctx, s.OrganizationID))
	return err
}
