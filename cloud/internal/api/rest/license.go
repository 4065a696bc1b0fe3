package rest

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/browsers/activity"
	"github.com/browser-svc/svc/cloud/internal/browsers/profile"
	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/cloud/internal/tenancy/webhook"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
)

// License serves slot accounting and the start and end reports of sessions.
type License struct {
	Licenses licenses
	Profiles launchProfiles
	Feed     networkFeed
	Ends     networkEnds
	Events   sessionEvents
}

// networkEnds stores what ended sessions have transferred. It needs no connection that other
// operations of an organization can occupy.
type networkEnds interface {
	SetNetwork(ctx context.Context, orgID, sessionID uuid.UUID, n activity.Network) error
}

// networkFeed sums what sessions have transferred.
type networkFeed interface {
	Usage(ctx context.Context, orgID uuid.UUID, start, end time.Time) (activity.Usage, error)
	UsageByDay(ctx context.Context, orgID uuid.UUID, start, end time.Time) ([]activity.UsageDay, error)
}

type licenses interface {
	Authorize(ctx context.Context, req license.Request) (license.Grant, error)
	UndoGrant(orgID, sessionID, slotID uuid.UUID)
	Start(ctx context.Context, report license.StartReport) (license.Session, error)
	End(ctx context.Context, report license.EndReport) (license.Session, error)
	Heartbeat(ctx context.Context, report license.HeartbeatReport) (license.HeartbeatResult, error)
	Reclaim(ctx context.Context, orgID uuid.UUID) (license.ReclaimResult, error)
	Sessions(ctx context.Context, orgID uuid.UUID) (license.Overview, error)
	History(ctx context.Context, orgID uuid.UUID, req license.HistoryRequest) (license.History, error)
	Timeline(ctx context.Context, orgID, slotID uuid.UUID) (license.Timeline, error)
	Events(ctx context.Context, orgID uuid.UUID, f license.EventFilter, r page.Request) (page.Page[license.Event], error)
}

// launchProfiles creates the profile of a spec and reads launch configurations.
// CreateEphemeral returns a license.ProfileLimitError at the profile limit.
type launchProfiles interface {
	Config(ctx context.Context, orgID, profileID uuid.UUID) (profile.Config, error)
	CreateEphemeral(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, draft profile.Draft) (uuid.UUID, error)
	EnsureExists(ctx context.Context, tx *sqlx.Tx, orgID, profileID uuid.UUID) error
}

// AuthorizeLaunch implements the operation authorizeLaunch.
func (h License) AuthorizeLaunch(ctx context.Context, r cloudapi.AuthorizeLaunchRequestObject) (cloudapi.AuthorizeLaunchResponseObject, error) {
	req, err := h.launch(ctx, *r.Body)
	if err != nil {
		return nil, err
	}
	grant, err := h.Licenses.Authorize(ctx, req)
	if err != nil {
		return nil, err
	}
	verdict := cloudapi.Authorization{Allowed: grant.Allowed, Current: int32(grant.Current), Limit: limited(grant.Limit)}
	if !grant.Allowed {
		return refusal(grant, verdict), nil
	}
	config, err := h.config(ctx, req.OrgID, grant)
	if err != nil {
		h.Licenses.UndoGrant(req.OrgID, req.SessionID, grant.SlotID)
		return nil, err
	}
	verdict.SlotId, verdict.ProfileConfig = &grant.SlotID, config
	return cloudapi.AuthorizeLaunch200JSONResponse{Success: true, Data: verdict}, nil
}

// refusalRetryAfter is the Retry-After of a refusal, in seconds. A queued launch repeats
// its request at once.
const refusalRetryAfter = 5

func refusal(grant license.Grant, verdict cloudapi.Authorization) cloudapi.AuthorizeLaunch402JSONResponse {
	verdict.Reason = new(cloudapi.RefusalReason(grant.Reason))
	if grant.ProfileCount != nil {
		verdict.ProfileCount = new(int32(*grant.ProfileCount))
	}
	retryAfter := int32(refusalRetryAfter)
	if grant.Queued {
		verdict.Queued, retryAfter = new(true), 0
	}
	if grant.Position > 0 {
		verdict.QueuePosition = new(int32(grant.Position))
	}
	return cloudapi.AuthorizeLaunch402JSONResponse{
		Body:    cloudapi.AuthorizeResponse{Success: true, Data: verdict},
		Headers: cloudapi.AuthorizeLaunch402ResponseHeaders{RetryAfter: &retryAfter},
	}
}

// launch converts the request of a worker.
func (h License) launch(ctx context.Context, body cloudapi.AuthorizeRequest) (license.Request, error) {
	caller := auth.CallerFrom(ctx)
	key, pending := auth.PendingKeyFrom(ctx)
	if pending {
		caller.KeyID, caller.OrgID = key.KeyID, key.OrgID
	}
	req := license.Request{
		OrgID: caller.OrgID, KeyID: caller.KeyID, KeyPending: pending, MachineID: body.MachineId, BootID: body.BootId,
		SessionID: body.SessionId, ProfileID: body.ProfileId, Wait: time.Duration(valueOr(body.WaitSeconds, 0)) * time.Second,
	}
	req.Poll = req.Wait
	if body.PollSeconds != nil {
		req.Poll = time.Duration(*body.PollSeconds) * time.Second
	}
	for _, end := range valueOr(body.Ends, nil) {
		req.Ends = append(req.Ends, license.EndReport{
			OrgID: caller.OrgID, ProfileID: end.ProfileId, SessionID: end.SessionId, Status: license.Status(valueOr(end.Status, "")),
			EndReason: license.EndReason(valueOr(end.EndReason, "")), EndedAt: utcTime(end.EndedAt),
		})
	}
	if body.Spec == nil {
		return req, nil
	}
	if body.Spec.BrowserVersion == nil {
		return license.Request{}, fault.Invalid(fault.Detail{
			Field: "spec.browserVersion", Code: fault.Required, Message: "is required in a spec",
		})
	}
	draft, err := draftFromSpec(*body.Spec)
	if err != nil {
		return license.Request{}, err
	}
	req.NewProfile = func(ctx context.Context, tx *sqlx.Tx) (uuid.UUID, error) {
		return h.Profiles.CreateEphemeral(ctx, tx, caller.OrgID, draft)
	}
	return req, nil
}

// config returns the configuration of the launch's profile; nil without a
// profile.
func (h License) config(ctx context.Context, orgID uuid.UUID, grant license.Grant) (*cloudapi.ProfileConfig, error) {
	if grant.ProfileID == nil {
		return nil, nil
	}
	found, prepared := grant.Config.(profile.Config)
	if !prepared {
		var err error
		if found, err = h.Profiles.Config(ctx, orgID, *grant.ProfileID); err != nil {
			return nil, err
		}
	}
	config, err := configFromProfile(found)
	return &config, err
}

// ListLicenseSessions implements the operation listLicenseSessions.
func (h License) ListLicenseSessions(ctx context.Context, _ cloudapi.ListLicenseSessionsRequestObject) (cloudapi.ListLicenseSessionsResponseObject, error) {
	overview, err := h.Licenses.Sessions(ctx, auth.CallerFrom(ctx).OrgID)
	if err != nil {
		return nil, err
	}
	charged := cloudapi.LicenseSessions{
		Current: int32(overview.Current), Limit: limited(overview.Limit),
		RunningSessions: int32(overview.Running), ReservedSlots: int32(overview.Reserved),
		HeartbeatTtlSeconds:  int32(license.HeartbeatTTL.Seconds()),
		UnreportedTtlSeconds: int32(license.UnreportedTTL.Seconds()),
		Sessions:             []cloudapi.LicenseSession{}, DuplicateMachines: []cloudapi.DuplicateMachine{},
	}
	for _, s := range overview.Sessions {
		charged.Sessions = append(charged.Sessions, cloudapi.LicenseSession{
			SessionId: s.SessionID, ProfileId: s.ProfileID, MachineId: s.MachineID,
			StartedAt: s.StartedAt, HeartbeatAt: s.HeartbeatAt, Stale: s.Stale,
		})
	}
	for _, d := range overview.Duplicates {
		charged.DuplicateMachines = append(charged.DuplicateMachines,
			cloudapi.DuplicateMachine{MachineId: d.MachineID, BootIds: d.BootIDs, Since: d.Since})
	}
	return cloudapi.ListLicenseSessions200JSONResponse{Success: true, Data: charged}, nil
}

// HeartbeatLicenseSessions implements the operation heartbeatLicenseSessions.
func (h License) HeartbeatLicenseSessions(ctx context.Context, r cloudapi.HeartbeatLicenseSessionsRequestObject) (cloudapi.HeartbeatLicenseSessionsResponseObject, error) {
	caller := auth.CallerFrom(ctx)
	result, err := h.Licenses.Heartbeat(ctx, license.HeartbeatReport{
		OrgID: caller.OrgID, MachineID: r.Body.MachineId, BootID: r.Body.BootId,
		Seq: r.Body.Seq, Sessions: r.Body.Sessions, Predecessors: previousBoots(r.Body.PreviousBootIds),
		Machine: machineReport(caller.KeyID, r.Body.Machine),
	})
	if err != nil {
		return nil, err
	}
	return cloudapi.HeartbeatLicenseSessions200JSONResponse{Success: true, Data: cloudapi.Heartbeat{
		Applied: result.Applied, Accepted: nonNil(result.Accepted), Released: nonNil(result.Released), Unknown: nonNil(result.Unknown),
		NextHeartbeatSeconds: int32(result.Next.Seconds()),
	}}, nil
}

// ReclaimLicenseSessions implements the operation reclaimLicenseSessions.
func (h License) ReclaimLicenseSessions(ctx context.Context, _ cloudapi.ReclaimLicenseSessionsRequestObject) (cloudapi.ReclaimLicenseSessionsResponseObject, error) {
	result, err := h.Licenses.Reclaim(ctx, auth.CallerFrom(ctx).OrgID)
	if err != nil {
		return nil, err
	}
	return cloudapi.ReclaimLicenseSessions200JSONResponse{Success: true, Data: cloudapi.Reclaim{
		Released: int32(result.Released), Current: int32(result.Current), Limit: limited(result.Limit),
	}}, nil
}

// StartProfileSession implements the operation startProfileSession.
func (h License) StartProfileSession(ctx context.Context, r cloudapi.StartProfileSessionRequestObject) (cloudapi.StartProfileSessionResponseObject, error) {
	caller, body := auth.CallerFrom(ctx), r.Body
	events, err := reportedEvents(body.Events)
	if err != nil {
		return nil, err
	}
	session, err := h.Licenses.Start(ctx, license.StartReport{
		OrgID: caller.OrgID, KeyID: caller.KeyID, ProfileID: r.ProfileId, SessionID: body.SessionId, SlotID: body.SlotId,
		MachineID: body.MachineId, BootID: body.BootId, Seq: body.Seq, LaunchID: body.LaunchId,
		BrowserVersion: int(body.BrowserVersion), StartedAt: body.StartedAt.UTC(), Predecessors: previousBoots(body.PreviousBootIds),
		Recording: recordingOf(body.Recording), Labels: license.Labels{Name: valueOr(body.Name, ""), Metadata: valueOr(body.Metadata, nil)},
		RequireProfile: func(ctx context.Context, tx *sqlx.Tx) error {
			return h.Profiles.EnsureExists(ctx, tx, caller.OrgID, r.ProfileId)
		},
	})
	if len(events) > 0 && (err == nil || fault.Is(err, fault.Conflict)) { // the session may have ended meanwhile
		if failure := h.Events.Report(ctx, caller.OrgID, body.SessionId, &body.MachineId, events); failure != nil {
			return nil, failure
		}
	}
	if err != nil {
		return nil, err
	}
	return cloudapi.StartProfileSession201JSONResponse{
		Body: cloudapi.SessionReportResponse{Success: true, Data: sessionReport(session)},
		Headers: cloudapi.StartProfileSession201ResponseHeaders{
			Location: fmt.Sprintf("/v1/profiles/%s/sessions/%s", r.ProfileId, session.SessionID),
		},
	}, nil
}

func recordingOf(body *cloudapi.SessionRecording) *license.Recording {
	if body == nil {
		return nil
	}
	return &license.Recording{Video: body.Video, Events: body.Events, Frames: valueOr(body.Frames, false), HAR: valueOr(body.Har, false), Trace: valueOr(body.Trace, false), URL: body.Url, Viewer: valueOr(body.ViewerUrl, "")}
}

func previousBoots(ids *cloudapi.PreviousBootIds) license.Predecessors {
	return license.Predecessors{Known: ids != nil, Boots: valueOr(ids, nil)}
}

// EndProfileSession implements the operation endProfileSession.
func (h License) EndProfileSession(ctx context.Context, r cloudapi.EndProfileSessionRequestObject) (cloudapi.EndProfileSessionResponseObject, error) {
	report := license.EndReport{OrgID: auth.CallerFrom(ctx).OrgID, ProfileID: r.ProfileId, SessionID: r.SessionId}
	var events []webhook.SessionEvent
	if r.Body != nil {
		var err error
		if events, err = reportedEvents(r.Body.Events); err != nil {
			return nil, err
		}
		report.Status = license.Status(valueOr(r.Body.Status, ""))
		report.EndReason = license.EndReason(valueOr(r.Body.EndReason, ""))
		report.EndedAt = utcTime(r.Body.EndedAt)
	}
	session, err := h.Licenses.End(ctx, report)
	if err != nil {
		return nil, err
	}
	if r.Body != nil && r.Body.Network != nil { // also if an authorize request has carried the end
		network, err := networkOf(*r.Body.Network)
		if err != nil {
			return nil, err
		}
		if err := h.Ends.SetNetwork(ctx, report.OrgID, report.SessionID, network); err != nil {
			return nil, err
		}
	}
	if len(events) > 0 {
		if err := h.Events.Report(ctx, report.OrgID, report.SessionID, nil, events); err != nil {
			return nil, err
		}
	}
	return cloudapi.EndProfileSession200JSONResponse{Success: true, Data: sessionReport(session)}, nil
}

func sessionReport(s license.Session) cloudapi.SessionReport {
	report := cloudapi.SessionReport{
		SessionId: s.SessionID, SlotId: s.SlotID, Status: sharedapi.SessionStatusRunning, StartedAt: s.StartedAt,
		EndedAt: s.EndedAt, EndReason: (*sharedapi.SessionEndReason)(s.EndReason),
	}
	if s.Status != nil {
		report.Status = sharedapi.SessionStatus(*s.Status)
	}
	return report
}

// limited converts a limit; nil means unlimited.
func limited(n *int) *sharedapi.Limited {
	if n == nil {
		return nil
	}
	limit := sharedapi.Limited(*n)
	return &limit
}
