package cloudtest

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/shared/fault"
)

// GetCloudHealth answers that the cloud is healthy.
func (c *Cloud) GetCloudHealth(context.Context, cloudapi.GetCloudHealthRequestObject) (cloudapi.GetCloudHealthResponseObject, error) {
	return cloudapi.GetCloudHealth200JSONResponse{Success: true, Data: cloudapi.CloudHealth{
		Status: cloudapi.Ok, Version: "1.0.0", ContractVersion: cloudapi.ContractVersion,
	}}, nil
}

// AuthorizeLaunch reserves a slot, or refuses at the limit. A launch that can wait joins
// the queue, as in the cloud.
func (c *Cloud) AuthorizeLaunch(ctx context.Context, r cloudapi.AuthorizeLaunchRequestObject) (cloudapi.AuthorizeLaunchResponseObject, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	config, call := cloudapi.ProfileConfig{}, Call{Operation: Authorize, SessionID: r.Body.SessionId, Authorize: r.Body}
	if r.Body.ProfileId != nil {
		found, ok := c.profiles[*r.Body.ProfileId]
		if !ok {
			return nil, fault.Missing("profile")
		}
		config = found
	} else {
		profile, err := profileFromSpec(r.Body.Spec)
		if err != nil {
			return nil, err
		}
		config = profile
	}
	config.OrganizationNetwork = c.network
	call.ProfileID = config.ProfileId
	c.record(ctx, call)
	if r.Body.Ends != nil {
		for _, end := range *r.Body.Ends {
			if reservation := c.slots[end.SessionId]; reservation != nil && reservation.machine == r.Body.MachineId {
				c.end(end.SessionId)
			}
		}
	}
	if position, queued, err := c.awaitTurn(ctx, r.Body); err != nil {
		return nil, err
	} else if position > 0 {
		verdict := cloudapi.Authorization{
			Reason: new(cloudapi.RefusalReasonConcurrencyLimit), Current: int32(len(c.slots)), Limit: c.currentLimit(),
		}
		if queued {
			verdict.Queued, verdict.QueuePosition = &queued, new(int32(position))
		}
		return cloudapi.AuthorizeLaunch402JSONResponse{Body: cloudapi.AuthorizeResponse{Success: true, Data: verdict}}, nil
	}
	reservation := &slot{id: uuid.Must(uuid.NewV7()), profile: config.ProfileId, machine: r.Body.MachineId, boot: r.Body.BootId}
	c.slots[r.Body.SessionId] = reservation
	return cloudapi.AuthorizeLaunch200JSONResponse{Success: true, Data: cloudapi.Authorization{
		Allowed: true, Current: int32(len(c.slots)), Limit: c.currentLimit(), SlotId: &reservation.id, ProfileConfig: &config,
	}}, nil
}

// profileFromSpec returns the profile for a spec. Common fields have the same names in both.
func profileFromSpec(spec *sharedapi.LaunchSpec) (cloudapi.ProfileConfig, error) {
	config := profileConfig(uuid.Must(uuid.NewV7()), 0)
	config.Name, config.Ephemeral = "For one launch", true
	text, err := json.Marshal(spec)
	if err != nil {
		return config, err
	}
	return config, json.Unmarshal(text, &config)
}

func (c *Cloud) full() bool { return c.limit != nil && len(c.slots) >= *c.limit }

func (c *Cloud) currentLimit() *sharedapi.Limited {
	if c.limit == nil {
		return nil
	}
	limit := sharedapi.Limited(*c.limit)
	return &limit
}

// StartProfileSession turns a reserved slot into a running session, unless the session has
// ended.
func (c *Cloud) StartProfileSession(ctx context.Context, r cloudapi.StartProfileSessionRequestObject) (cloudapi.StartProfileSessionResponseObject, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.record(ctx, Call{Operation: Start, ProfileID: r.ProfileId, SessionID: r.Body.SessionId, Start: r.Body})
	id := r.Body.SessionId
	if c.ended[id] {
		return nil, fault.New(fault.Conflict, "The session has ended.")
	}
	reservation := c.slots[id]
	if reservation == nil {
		if c.full() {
			return nil, fault.New(fault.PaymentRequired, "All slots of the organization are in use.")
		}
		reservation = &slot{id: uuid.Must(uuid.NewV7()), profile: r.ProfileId}
		c.slots[id] = reservation
	} else if r.Body.SlotId == nil || *r.Body.SlotId != reservation.id {
		c.t.Errorf("session %s started with slot %s, it has %s", id, r.Body.SlotId, reservation.id)
	}
	reservation.running, reservation.machine, reservation.boot, reservation.seq = true, r.Body.MachineId, r.Body.BootId, r.Body.Seq
	c.unknown = slices.DeleteFunc(c.unknown, func(u uuid.UUID) bool { return u == id })
	startedAt := r.Body.StartedAt
	return cloudapi.StartProfileSession201JSONResponse{
		Body: cloudapi.SessionReportResponse{Success: true, Data: cloudapi.SessionReport{
			SessionId: id, SlotId: &reservation.id, Status: sharedapi.SessionStatusRunning, StartedAt: &startedAt,
		}},
		Headers: cloudapi.StartProfileSession201ResponseHeaders{Location: "/v1/profiles/" + r.ProfileId.String() + "/sessions/" + id.String()},
	}, nil
}

// EndProfileSession releases a slot.
func (c *Cloud) EndProfileSession(ctx context.Context, r cloudapi.EndProfileSessionRequestObject) (cloudapi.EndProfileSessionResponseObject, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.record(ctx, Call{Operation: End, ProfileID: r.ProfileId, SessionID: r.SessionId, End: r.Body})
	if reservation := c.slots[r.SessionId]; reservation != nil && reservation.profile != r.ProfileId {
		c.t.Errorf("session %s of profile %s was ended with profile %s", r.SessionId, reservation.profile, r.ProfileId)
	}
	c.end(r.SessionId)
	now, reason := time.Now().UTC(), sharedapi.SessionEndReason(*r.Body.EndReason)
	return cloudapi.EndProfileSession200JSONResponse{Success: true, Data: cloudapi.SessionReport{
		SessionId: r.SessionId, Status: sharedapi.SessionStatus(*r.Body.Status), EndedAt: &now, EndReason: &reason,
	}}, nil
}

// end releases the slot of a session. A start that arrives later is refused. The caller
// holds the lock.
func (c *Cloud) end(session uuid.UUID) {
	delete(c.slots, session)
	c.ended[session] = true
}

// endedBy reports whether a heartbeat that omits the slot ends it: the heartbeat is
// from a later boot, or later than the session's start.
func (s *slot) endedBy(beat *cloudapi.HeartbeatRequest) bool {
	return s.boot != beat.BootId || s.running && s.seq <= beat.Seq
}

// HeartbeatLicenseSessions accepts the sessions of a machine and releases the slots
// of omitted sessions.
func (c *Cloud) HeartbeatLicenseSessions(ctx context.Context, r cloudapi.HeartbeatLicenseSessionsRequestObject) (cloudapi.HeartbeatLicenseSessionsResponseObject, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.record(ctx, Call{Operation: Heartbeat, Heartbeat: r.Body})
	data := cloudapi.Heartbeat{
		Applied: true, Accepted: []uuid.UUID{}, Released: []uuid.UUID{}, Unknown: []uuid.UUID{},
		NextHeartbeatSeconds: int32(c.next / time.Second),
	}
	for _, id := range r.Body.Sessions {
		if slices.Contains(c.unknown, id) {
			data.Unknown = append(data.Unknown, id)
		} else {
			data.Accepted = append(data.Accepted, id)
		}
	}
	for id, held := range c.slots {
		if held.machine == r.Body.MachineId && held.endedBy(r.Body) && !slices.Contains(r.Body.Sessions, id) {
			delete(c.slots, id)
			data.Released = append(data.Released, id)
		}
	}
	return cloudapi.HeartbeatLicenseSessions200JSONResponse{Success: true, Data: data}, nil
}
