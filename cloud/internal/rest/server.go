// Package rest answers the cloud's operations: convert, one call, convert.
// There is a struct for each resource, with the services that it calls.
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
	Organizations
	Members
	Invitations
	APIKeys
	Plans
	Billing
	Profiles
	Sessions
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
	Version         string // of the program
	ContractVersion string // of the document
}

type database interface {
	Ping(ctx context.Context) error
}

type readiness interface {
	Err(ctx context.Context) error // nil when requests are taken
}

const pingTimeout = 2 * time.Second

// GetCloudHealth answers 200 when the database answers and takes writes, 503
// otherwise.
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

// CheckCloudLiveness answers as long as the program serves requests.
func (h Health) CheckCloudLiveness(context.Context, cloudapi.CheckCloudLivenessRequestObject) (cloudapi.CheckCloudLivenessResponseObject, error) {
	return cloudapi.CheckCloudLiveness200JSONResponse{Success: true, Data: sharedapi.Liveness{Status: sharedapi.Alive}}, nil
}

// CheckCloudReadiness answers 200 when requests are taken, 503 with the reasons
// otherwise.
func (h Health) CheckCloudReadiness(ctx context.Context, _ cloudapi.CheckCloudReadinessRequestObject) (cloudapi.CheckCloudReadinessResponseObject, error) {
	if err := h.Readiness.Err(ctx); err != nil {
		return nil, err
	}
	return cloudapi.CheckCloudReadiness200JSONResponse{Success: true, Data: sharedapi.Readiness{Status: sharedapi.Ready}}, nil
}
