package main

import (
	"context"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
)

// newDataSession creates a profile of the seeded organization and a running session of
// it.
func (p *exampleRunner) newDataSession(ctx context.Context) (tenant tenant, s cloudapi.StartSessionRequest, err error) {
	if err := p.activateSeeded(ctx); err != nil {
		return tenant, s, err
	}
	tenant = p.seed.tenant
	if tenant.ProfileID, err = p.newProfile(ctx, p.seed.Owner, p.seed.BrowserVersion); err != nil {
		return tenant, s, err
	}
	s, err = p.newSession(ctx, tenant, p.seed.BrowserVersion)
	return tenant, s, err
}

// newDataVersion creates a session that may save the data of a new profile, and saves a
// version if requested.
func (p *exampleRunner) newDataVersion(ctx context.Context, save bool) (tenant, cloudapi.AddProfileDataVersionRequest, error) {
	tenant, s, err := p.newDataSession(ctx)
	version := cloudapi.AddProfileDataVersionRequest{
		Id: uuid.New(), SessionId: s.SessionId, MachineId: s.MachineId, SizeBytes: 31457280, SentBytes: 5242880, KeepVersions: 3,
	}
	if err != nil {
		return tenant, version, err
	}
	license, err := p.cloud("X-API-Key", tenant.OrganizationKey)
	if err != nil {
		return tenant, version, err
	}
	_, err = requireSuccess(license.OpenProfileDataWithResponse(ctx, tenant.ProfileID, cloudapi.OpenProfileDataRequest{SessionId: s.SessionId, MachineId: s.MachineId}))
	if err != nil || !save {
		return tenant, version, err
	}
	if _, err := requireSuccess(license.AddProfileDataVersionWithResponse(ctx, tenant.ProfileID, version)); err != nil {
		return tenant, version, err
	}
	_, err = requireSuccess(license.EndProfileSessionWithResponse(ctx, tenant.ProfileID, s.SessionId, cloudapi.EndSessionRequest{}))
	return tenant, version, err
}

// savedDataSetup saves a version of a new profile's data.
func (p *exampleRunner) savedDataSetup(ctx context.Context) (exampleSetup, error) {
	tenant, version, err := p.newDataVersion(ctx, true)
	return exampleSetup{path: map[string]string{"profileId": tenant.ProfileID.String(), "versionId": version.Id.String()}}, err
}
