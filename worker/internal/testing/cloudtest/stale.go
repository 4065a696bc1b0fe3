package cloudtest

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/fault"
)

// AddStaleSession adds a running stale session of a machine and returns its id. It
// holds a slot until it is reclaimed.
func (c *Cloud) AddStaleSession(machine string) uuid.UUID {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := uuid.Must(uuid.NewV7())
	c.slots[id] = &slot{id: uuid.Must(uuid.NewV7()), profile: uuid.New(), machine: machine, boot: uuid.New(), running: true, stale: true}
	return id
}

// GetProfileConfig answers with the launch configuration of a profile.
func (c *Cloud) GetProfileConfig(_ context.Context, r cloudapi.GetProfileConfigRequestObject) (cloudapi.GetProfileConfigResponseObject, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.profiles[r.ProfileId]
	if !ok {
		return nil, fault.Missing("profile")
	}
	found.OrganizationNetwork = c.network
	return cloudapi.GetProfileConfig200JSONResponse{Success: true, Data: found}, nil
}

// ListLicenseSessions lists the sessions that hold a slot.
func (c *Cloud) ListLicenseSessions(context.Context, cloudapi.ListLicenseSessionsRequestObject) (cloudapi.ListLicenseSessionsResponseObject, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	charged := cloudapi.LicenseSessions{
		Current: int32(len(c.slots)), Limit: c.currentLimit(), HeartbeatTtlSeconds: 300, UnreportedTtlSeconds: 21600,
		Sessions: []cloudapi.LicenseSession{}, DuplicateMachines: []cloudapi.DuplicateMachine{},
	}
	for id, held := range c.slots {
		if !held.running {
			charged.ReservedSlots++
			continue
		}
		charged.RunningSessions++
		charged.Sessions = append(charged.Sessions, cloudapi.LicenseSession{
			SessionId: id, ProfileId: &held.profile, MachineId: held.machine, StartedAt: time.Now().UTC(), Stale: held.stale,
		})
	}
	return cloudapi.ListLicenseSessions200JSONResponse{Success: true, Data: charged}, nil
}

// ReclaimLicenseSessions ends the stale sessions.
func (c *Cloud) ReclaimLicenseSessions(context.Context, cloudapi.ReclaimLicenseSessionsRequestObject) (cloudapi.ReclaimLicenseSessionsResponseObject, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	released := int32(0)
	for id, held := range c.slots {
		if held.stale {
			delete(c.slots, id)
			released++
		}
	}
	return cloudapi.ReclaimLicenseSessions200JSONResponse{Success: true, Data: cloudapi.Reclaim{
		Released: released, Current: int32(len(c.slots)), Limit: c.currentLimit(),
	}}, nil
}
