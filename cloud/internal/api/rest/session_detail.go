package rest

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/browsers/activity"
	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/gen/cloudapi"
)

// sessionLicenses reads what the license accounting recorded about a session.
type sessionLicenses interface {
	SessionHistory(ctx context.Context, orgID, sessionID uuid.UUID) (license.SessionHistory, error)
	Machine(ctx context.Context, orgID uuid.UUID, machineID string) (*license.Machine, error)
}

// GetSession implements the operation getSession.
func (h Sessions) GetSession(ctx context.Context, r cloudapi.GetSessionRequestObject) (cloudapi.GetSessionResponseObject, error) {
	orgID := auth.CallerFrom(ctx).OrgID
	found, err := h.Feed.Get(ctx, orgID, r.SessionId)
	if err != nil {
		return nil, err
	}
	history, err := h.Licenses.SessionHistory(ctx, orgID, r.SessionId)
	if err != nil {
		return nil, err
	}
	machine, err := h.Licenses.Machine(ctx, orgID, found.MachineID)
	if err != nil {
		return nil, err
	}
	detail := sessionDetail(found)
	if detail.NetworkHosts, err = networkHosts(found); err != nil {
		return nil, err
	}
	if machine != nil {
		detail.Machine = new(machineToAPI(*machine))
	}
	if slot := history.Slot; slot != nil {
		detail.Slot = &cloudapi.SessionSlot{
			SlotId: slot.SlotID, State: cloudapi.LicenseSlotState(slot.State), LeaseUntil: slot.LeaseUntil, Stale: slot.Stale,
			ReleaseReason: (*cloudapi.LicenseReleaseReason)(slot.ReleaseReason),
		}
	}
	detail.Timeline = sessionTimeline(found.Session, history)
	return cloudapi.GetSession200JSONResponse{Success: true, Data: detail}, nil
}

func sessionDetail(d activity.Detail) cloudapi.SessionDetail {
	s := sessionToAPI(d.Session)
	return cloudapi.SessionDetail{
		Id: s.Id, ProfileId: s.ProfileId, ProfileName: s.ProfileName, MachineId: s.MachineId, KeyId: s.KeyId, LaunchId: s.LaunchId,
		BrowserVersion: s.BrowserVersion, Status: s.Status, EndReason: s.EndReason, StartedAt: s.StartedAt, EndedAt: s.EndedAt,
		DurationSeconds: s.DurationSeconds, KeyName: d.KeyName, Recording: s.Recording, Name: s.Name, Metadata: s.Metadata,
		Network: s.Network,
	}
}

// sessionTimeline merges the times of the session, of its slot and of its refusals.
func sessionTimeline(s activity.Session, history license.SessionHistory) []cloudapi.SessionMoment {
	moments := []cloudapi.SessionMoment{}
	add := func(what string, t time.Time, reason *string) {
		moments = append(moments, cloudapi.SessionMoment{What: cloudapi.SessionMomentKind(what), At: t, Reason: reason})
	}
	for _, refusal := range history.Refusals {
		add("refused", refusal.At, &refusal.Reason)
	}
	if history.Slot == nil {
		add("started", s.StartedAt, nil)
	} else {
		for _, m := range history.Slot.Moments {
			add(m.Kind, m.At, nil)
		}
	}
	if s.EndedAt != nil {
		add("ended", *s.EndedAt, s.EndReason)
	}
	slices.SortStableFunc(moments, func(a, b cloudapi.SessionMoment) int { return a.At.Compare(b.At) })
	return moments
}
