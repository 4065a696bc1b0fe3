// Package rest answers the cloud's operations: convert, one call, convert.
// There is a struct for each resource, with the services that it calls.
package rest

import (
	"context"
	"time"

	"github.com/browser-svc/svc/gen/cloudapi"
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
	Version         string // of the program
	ContractVersion string // of the document
}

type database interface {
	Ping(ctx context.Context) error
}

const pingTimeout = 2 * time.Second

// GetCloudHealth answers 200 when the database answers, 503 otherwise.
func (h Health) GetCloudHealth(ctx context.Context, _ cloudapi.GetCloudHealthRequestObject) (cloudapi.GetCloudHealthResponseObject, error) {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	if err := h.Database.Ping(ctx); err != nil {
		return nil, fault.Wrap(err, fault.Unavailable, "The database does not answer.")
	}
	return cloudapi.GetCloudHealth200JSONResponse{Success: true, Data: cloudapi.CloudHealth{
		Status: cloudapi.Ok, Version: h.Version, ContractVersion: h.ContractVersion,
	}}, nil
}
