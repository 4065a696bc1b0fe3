// Package rest implements the cloud's operations. Each handler converts the request,
// calls one service and converts the result. There is one struct for each resource.
package rest

import (
	"context"
	"time"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/shared/fault"
)

// Server implements the generated interface.
type Server struct {
	Health
	Auth
	AccessTokens
	ServiceAccounts
	Organizations
	Members
	Invitations
	APIKeys
	Plans
	Billing
	Profiles
	ProfileData
	Secrets
	Webhooks
	Sessions
	Machines
	License
	Releases
	Contact
	Audit
}

var _ cloudapi.StrictServerInterface = Server{}

// Health serves the operation of the tag Health.
type Health struct {
	Database        database
	Readiness       readiness
	Version         string // version of the program
	ContractVersion string // version of the document
}

type database interface {
	Ping(ctx context.Context) error
}

type readiness interface {
	Err(ctx context.Context) error // nil if the replica accepts requests
}

const pingTimeout = 2 * time.Second

// GetCloudHealth answers 200 if the database answers and accepts writes, else
// 503.
func (h Health) GetCloudHealth(ctx context.Context, _ cloudapi.GetCloudHealthRequestObject) (cloudapi.GetCloudHealthResponseObject, error) {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	if err := h.Database.Ping(ctx); fault.Is(err, fault.Unavailable) {
		return nil, err
	} else if err != nil {
		unavailable := fault.Wrap(err, fault.Unavailable, "The database does not answer.")
		unavailable.RetryAfter = pingTimeout
		return nil, unavailable
	}
	return cloudapi.GetCloudHealth200JSONResponse{Success: true, Data: cloudapi.CloudHealth{
		Status: cloudapi.Ok, Version: h.Version, ContractVersion: h.ContractVersion,
	}}, nil
}

// CheckCloudLiveness answers 200 as long as the process serves requests.
func (h Health) CheckCloudLiveness(context.Context, cloudapi.CheckCloudLivenessRequestObject) (cloudapi.CheckCloudLivenessResponseObject, error) {
	return cloudapi.CheckCloudLiveness200JSONResponse{Success: true, Data: sharedapi.Liveness{Status: sharedapi.Alive}}, nil
}

// CheckCloudReadiness answers 200 if this replica takes requests, else 503 with
// the reasons.
func (h Health) CheckCloudReadiness(ctx context.Context, _ cloudapi.CheckCloudReadinessRequestObject) (cloudapi.CheckCloudReadinessResponseObject, error) {
	if err := h.Readiness.Err(ctx); err != nil {
		return nil, err
	}
	return cloudapi.CheckCloudReadiness200JSONResponse{Success: true, Data: sharedapi.Readiness{Status: sharedapi.Ready}}, nil
}
