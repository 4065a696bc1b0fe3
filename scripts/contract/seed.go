package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// seed is what a stage finds in the servers. It goes to seed.json, for the
// stages that are programs of their own.
type seed struct {
	CloudURL  string `json:"cloudUrl"`
	WorkerURL string `json:"workerUrl"`
	tenant           // of the owner, the admin, the member and the worker; without limits
	Slug      string `json:"organizationSlug"`
	WorkerKey string `json:"workerKey"`

	RevokedKey string   `json:"revokedKey"`
	Owner      *person  `json:"owner"`
	Admin      *person  `json:"admin"`
	Member     *person  `json:"member"`
	Stranger   stranger `json:"stranger"`
	Full       tenant   `json:"full"` // the owner's, too; each of its slots is taken

	BrowserVersion int32  `json:"browserVersion"`
	MailDir        string `json:"mailDir"` // where the cloud leaves its mail
}

// stranger is somebody with an organization, who has nothing to do with the
// others.
type stranger struct {
	*person
	tenant
}

// plant makes everything, and has a worker started as soon as there is a key for
// it.
func (p *planter) plant(ctx context.Context, startWorker func(ctx context.Context, organizationKey, workerKey string) error) (*seed, error) {
	s := &seed{CloudURL: p.cloudURL, WorkerURL: p.workerURL, WorkerKey: "wrk_" + strings.ToLower(rand.Text())}
	var err error
	if s.Owner, err = p.newPerson(ctx, "Owner"); err != nil {
		return nil, err
	}
	if err := p.verify(ctx, s.Owner); err != nil { // it makes more than one organization
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
	for _, rest := range []func(context.Context, *seed) error{p.describe, p.people, p.fill} {
		if err := rest(ctx, s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (p *planter) newestBrowser(ctx context.Context, workerKey string) (int32, error) {
	worker, err := p.worker(workerKey)
	if err != nil {
		return 0, err
	}
	installed, err := success(worker.ListBrowserVersionsWithResponse(ctx))
	if err != nil {
		return 0, fmt.Errorf("list the browsers: %w", err)
	}
	if len(installed.JSON200.Data.Versions) == 0 {
		return 0, errors.New("no browser is installed")
	}
	return installed.JSON200.Data.Versions[0], nil
}

// describe finds the organization's slug, and makes a key that opens nothing
// any more.
func (p *planter) describe(ctx context.Context, s *seed) error {
	organization, err := success(s.Owner.api.GetOrganizationWithResponse(ctx, s.OrganizationID))
	if err != nil {
		return fmt.Errorf("read the organization: %w", err)
	}
	s.Slug = organization.JSON200.Data.Slug
	var id uuid.UUID
	if s.RevokedKey, id, err = p.newKey(ctx, s.Owner, s.OrganizationID); err != nil {
		return err
	}
	_, err = success(s.Owner.api.RevokeApiKeyWithResponse(ctx, s.OrganizationID, id))
	return err
}

// people makes the organization's members, and a stranger.
func (p *planter) people(ctx context.Context, s *seed) (err error) {
	if s.Admin, err = p.newMember(ctx, s.Owner, s.OrganizationID, "admin"); err != nil {
		return err
	}
	if s.Member, err = p.newMember(ctx, s.Owner, s.OrganizationID, "member"); err != nil {
		return err
	}
	if s.Stranger.person, err = p.newPerson(ctx, "Stranger"); err != nil {
		return err
	}
	if err := p.verify(ctx, s.Stranger.person); err != nil {
		return err
	}
	if s.Stranger.tenant, err = p.newTenant(ctx, s.Stranger.person, "Foreign Parts", "free"); err != nil {
		return err
	}
	s.Stranger.ProfileID, err = p.newProfile(ctx, s.Stranger.person, s.BrowserVersion)
	return err
}

// fill makes an organization whose every slot is taken. The owner's active one
// is the first again in the end.
func (p *planter) fill(ctx context.Context, s *seed) (err error) {
	if s.Full, err = p.newTenant(ctx, s.Owner, "Full House", "free"); err != nil {
		return err
	}
	if s.Full.ProfileID, err = p.newProfile(ctx, s.Owner, s.BrowserVersion); err != nil {
		return err
	}
	stats, err := success(s.Owner.api.GetProfileStatsWithResponse(ctx))
	if err != nil {
		return err
	}
	limit := stats.JSON200.Data.ProfileLimit
	if limit == nil {
		return errors.New("the free plan has no limit: nothing can be full")
	}
	for range *limit {
		if _, err := p.newSession(ctx, s.Full, s.BrowserVersion); err != nil {
			return fmt.Errorf("take a slot: %w", err)
		}
	}
	_, err = success(s.Owner.api.ActivateOrganizationWithResponse(ctx, s.OrganizationID))
	return err
}
