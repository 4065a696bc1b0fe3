package rest

import (
	"context"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/shared/pageapi"
)

// GetLicenseSlot implements the operation getLicenseSlot.
func (h License) GetLicenseSlot(ctx context.Context, r cloudapi.GetLicenseSlotRequestObject) (cloudapi.GetLicenseSlotResponseObject, error) {
	slot, err := h.Licenses.Timeline(ctx, auth.CallerFrom(ctx).OrgID, r.SlotId)
	if err != nil {
		return nil, err
	}
	data := cloudapi.LicenseSlot{
		SlotId: slot.SlotID, State: cloudapi.LicenseSlotState(slot.State), SessionId: slot.SessionID, ProfileId: slot.ProfileID,
		KeyId: slot.KeyID, MachineId: slot.MachineID, BootId: slot.BootID, LaunchId: slot.LaunchID,
		BrowserVersion: int32OrNil(slot.BrowserVersion), LeaseUntil: slot.LeaseUntil, Stale: slot.Stale,
		ReleaseReason: (*cloudapi.LicenseReleaseReason)(slot.ReleaseReason), EndStatus: (*cloudapi.LicenseEndStatus)(slot.EndStatus),
		EndReason: (*sharedapi.SessionEndReason)(slot.EndReason),
	}
	for _, m := range slot.Moments {
		data.Timeline = append(data.Timeline, cloudapi.LicenseMoment{What: cloudapi.LicenseMomentKind(m.Kind), At: m.At})
	}
	return cloudapi.GetLicenseSlot200JSONResponse{Success: true, Data: data}, nil
}

// ListLicenseEvents implements the operation listLicenseEvents.
func (h License) ListLicenseEvents(ctx context.Context, r cloudapi.ListLicenseEventsRequestObject) (cloudapi.ListLicenseEventsResponseObject, error) {
	p := r.Params
	found, err := h.Licenses.Events(ctx, auth.CallerFrom(ctx).OrgID,
		license.EventFilter{Kind: (*license.EventKind)(p.Kind), MachineID: p.MachineId, SessionID: p.SessionId, From: utcTime(p.From), To: utcTime(p.To)},
		pageapi.Request(p.Page, p.Limit, string(valueOr(p.SortBy, "at")), p.SortOrder))
	if err != nil {
		return nil, err
	}
	list := cloudapi.LicenseEventList{Items: []cloudapi.LicenseEvent{}, Pagination: pageapi.Pagination(found)}
	for _, e := range found.Items {
		list.Items = append(list.Items, cloudapi.LicenseEvent{
			Id: e.ID, Kind: cloudapi.LicenseEventKind(e.Kind), At: e.At, LastAt: e.LastAt, Count: int32(e.Count),
			Reason: (*cloudapi.LicenseEventReason)(e.Reason), MachineId: e.MachineID, BootId: e.BootID, SessionId: e.SessionID,
			SlotId: e.SlotID, ProfileId: e.ProfileID, KeyId: e.KeyID,
			Current: int32OrNil(e.Current), Limit: int32OrNil(e.Limit), Previous: int32OrNil(e.Previous),
		})
	}
	return cloudapi.ListLicenseEvents200JSONResponse{Success: true, Data: list}, nil
}

func int32OrNil(n *int) *int32 {
	if n == nil {
		return nil
	}
	return new(int32(*n))
}
