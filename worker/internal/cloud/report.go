package cloud

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/worker/internal/cloud/report"
	"github.com/browser-svc/svc/worker/internal/session"
)

// ReportStart reports a running session (POST /v1/profiles/{id}/sessions). It
// implements report.Cloud, like ReportEnd and Heartbeat.
func (c *Client) ReportStart(ctx context.Context, started report.Start) error {
	credential := c.credential(started.OrganizationKey)
	err := c.reportStart(ctx, credential, started)
	if fault.Is(err, fault.Validation) && len(started.Events) > 0 { // a cloud of an earlier version refuses them
		started.Events = nil
		err = c.reportStart(ctx, credential, started)
	}
	if r := started.Recording; fault.Is(err, fault.Validation) && r != nil && r.Viewer != "" { // the same
		known := *r
		known.Viewer = ""
		started.Recording = &known
		err = c.reportStart(ctx, credential, started)
	}
	if fault.Is(err, fault.Validation) && (started.Name != "" || len(started.Metadata) > 0) { // a cloud of an earlier version refuses them
		started.Name, started.Metadata = "", nil
		err = c.reportStart(ctx, credential, started)
	}
	c.recordOutcome(ctx, credential, err, false)
	return err
}

func (c *Client) reportStart(ctx context.Context, credential credential, started report.Start) error {
	ctx, cancel := c.callContext(ctx, "startProfileSession", 0)
	defer cancel()
	if err := c.checkCompatible(ctx); err != nil {
		return err
	}
	boot := started.BootID
	if boot == uuid.Nil {
		boot = c.machine.BootID
	}
	var recording *cloudapi.SessionRecording
	if r := started.Recording; r != nil {
		recording = &cloudapi.SessionRecording{Video: r.Video, Events: r.Events, Url: r.URL}
		if r.Frames { // a cloud of an earlier version refuses the field
			recording.Frames = &r.Frames
		}
		if r.HAR { // the same
			recording.Har = &r.HAR
		}
		if r.Trace { // the same
			recording.Trace = &r.Trace
		}
		if r.Viewer != "" { // the same
			recording.ViewerUrl = &r.Viewer
		}
	}
	events, err := eventsToAPI(started.Events)
	if err != nil {
		return err
	}
	request := cloudapi.StartSessionRequest{
		SessionId: started.SessionID, SlotId: started.SlotID, MachineId: c.machine.ID, BootId: boot, Seq: started.Seq,
		LaunchId: started.LaunchID, BrowserVersion: int32(started.BrowserVersion), StartedAt: started.At,
		PreviousBootIds: c.predecessors(credential.key), Recording: recording, Events: events,
	}
	if started.Name != "" {
		request.Name = &started.Name
	}
	if len(started.Metadata) > 0 {
		request.Metadata = (*sharedapi.Metadata)(&started.Metadata)
	}
	answer, err := c.api.StartProfileSessionWithResponse(ctx, started.ProfileID, request, credential.sign)
	if err != nil {
		return callFault(err)
	}
	if answer.JSON201 != nil {
		return nil
	}
	return credential.answerFault(answer.HTTPResponse, answer.Body)
}

// ReportEnd reports the end of a session or of a failed launch (DELETE
// /v1/profiles/{id}/sessions/{sessionId}).
func (c *Client) ReportEnd(ctx context.Context, ended report.End) error {
	credential := c.credential(ended.OrganizationKey)
	err := c.reportEnd(ctx, credential, ended)
	if fault.Is(err, fault.Validation) && len(ended.Events) > 0 { // the same
		ended.Events = nil
		err = c.reportEnd(ctx, credential, ended)
	}
	if fault.Is(err, fault.Validation) && ended.Network != nil { // a cloud of an earlier version refuses it
		ended.Network = nil
		err = c.reportEnd(ctx, credential, ended)
	}
	if fault.Is(err, fault.Validation) && ended.Reason == string(session.NeverConnected) { // a cloud of an earlier version refuses it
		ended.Reason = string(session.Idle)
		err = c.reportEnd(ctx, credential, ended)
	}
	c.recordOutcome(ctx, credential, err, false)
	return err
}

func (c *Client) reportEnd(ctx context.Context, credential credential, ended report.End) error {
	ctx, cancel := c.callContext(ctx, "endProfileSession", 0)
	defer cancel()
	if err := c.checkCompatible(ctx); err != nil {
		return err
	}
	network, err := networkToAPI(ended.Network)
	if err != nil {
		return err
	}
	events, err := eventsToAPI(ended.Events)
	if err != nil {
		return err
	}
	status, reason := cloudapi.EndedStatus(ended.Status), sharedapi.EndReason(ended.Reason)
	answer, err := c.api.EndProfileSessionWithResponse(ctx, ended.ProfileID, ended.SessionID, cloudapi.EndSessionRequest{
		Status: &status, EndReason: &reason, EndedAt: &ended.At, Network: network, Events: events,
	}, credential.sign)
	if err != nil {
		return callFault(err)
	}
	if answer.JSON200 != nil {
		return nil
	}
	return credential.answerFault(answer.HTTPResponse, answer.Body)
}

// eventsToAPI returns nil for none.
func eventsToAPI(events []session.Event) (*cloudapi.ReportedEvents, error) {
	if len(events) == 0 {
		return nil, nil //nolint:nilnil // absent
	}
	converted, err := settings.Convert[cloudapi.ReportedEvents](events)
	return &converted, err
}

// networkToAPI returns nil for nil.
func networkToAPI(n *session.Network) (*cloudapi.SessionNetwork, error) {
	if n == nil {
		return nil, nil //nolint:nilnil // absent
	}
	items, err := settings.Convert[[]sharedapi.NetworkHost](n.Hosts)
	return &cloudapi.SessionNetwork{Totals: sharedapi.NetworkTotals(n.NetworkTotals), Items: items}, err
}

// Heartbeat reports the running sessions of this machine to the organization of
// a key (POST /v1/license/sessions/heartbeat).
func (c *Client) Heartbeat(ctx context.Context, key session.OrganizationKey, seq int64, sessions []uuid.UUID) (report.Heartbeat, error) {
	credential := c.credential(key)
	answer, err := c.heartbeat(ctx, credential, seq, sessions)
	c.recordOutcome(ctx, credential, err, true)
	return answer, err
}

func (c *Client) heartbeat(ctx context.Context, credential credential, seq int64, sessions []uuid.UUID) (report.Heartbeat, error) {
	ctx, cancel := c.callContext(ctx, "heartbeatLicenseSessions", 0)
	defer cancel()
	if err := c.checkCompatible(ctx); err != nil {
		return report.Heartbeat{}, err
	}
	if sessions == nil {
		sessions = []uuid.UUID{}
	}
	request := cloudapi.HeartbeatRequest{
		MachineId: c.machine.ID, BootId: c.machine.BootID, Seq: seq, Sessions: sessions, PreviousBootIds: c.predecessors(credential.key),
	}
	described := c.describeMachine(credential, &request)
	answer, err := c.api.HeartbeatLicenseSessionsWithResponse(ctx, request, credential.sign)
	if err != nil {
		return report.Heartbeat{}, callFault(err)
	}
	if answer.JSON200 == nil {
		return report.Heartbeat{}, credential.answerFault(answer.HTTPResponse, answer.Body)
	}
	data := answer.JSON200.Data
	if data.Applied {
		c.introduced.add(credential.key)
		c.machineReports.setDelivered(described, time.Now())
	}
	return report.Heartbeat{
		Applied: data.Applied, Released: data.Released, Unknown: data.Unknown, NextSeconds: int(data.NextHeartbeatSeconds),
	}, nil
}

// describeMachine adds the report of the machine to a heartbeat with the worker's own
// key, if it is due, and returns it. Callers' organizations do not get it.
func (c *Client) describeMachine(credential credential, request *cloudapi.HeartbeatRequest) *MachineReport {
	if credential.fromCaller {
		return nil
	}
	report := c.machineReports.due(time.Now())
	if report != nil {
		request.Machine = report.toAPI()
	}
	return report
}
