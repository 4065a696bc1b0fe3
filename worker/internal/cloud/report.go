package cloud

import (
	"context"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/worker/internal/report"
)

// Start reports that a session runs (POST /v1/profiles/{id}/sessions). It
// implements report.Cloud, as Finish and Heartbeat do.
func (c *Client) Start(ctx context.Context, started report.Start) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	answer, err := c.api.StartProfileSessionWithResponse(ctx, started.ProfileID, cloudapi.StartSessionRequest{
		SessionId: started.SessionID, SlotId: started.SlotID, MachineId: c.machine.ID, BootId: c.machine.BootID, Seq: started.Seq,
		LaunchId: started.LaunchID, BrowserVersion: int32(started.BrowserVersion), StartedAt: started.At,
	})
	if err != nil {
		return unreachable(err)
	}
	if answer.JSON201 != nil {
		return nil
	}
	return refusal(answer.HTTPResponse, answer.JSON400, answer.JSON401, answer.JSON402, answer.JSON404, answer.JSON409,
		answer.JSON413, answer.JSON415, answer.JSON500, answer.JSONDefault)
}

// Finish reports that a session, or a launch that failed, is over (DELETE
// /v1/profiles/{id}/sessions/{sessionId}).
func (c *Client) Finish(ctx context.Context, ended report.End) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	status, reason := cloudapi.EndedStatus(ended.Status), sharedapi.EndReason(ended.Reason)
	answer, err := c.api.EndProfileSessionWithResponse(ctx, ended.ProfileID, ended.SessionID, cloudapi.EndSessionRequest{
		Status: &status, EndReason: &reason, EndedAt: &ended.At,
	})
	if err != nil {
		return unreachable(err)
	}
	if answer.JSON200 != nil {
		return nil
	}
	return refusal(answer.HTTPResponse, answer.JSON400, answer.JSON401, answer.JSON404, answer.JSON413, answer.JSON415,
		answer.JSON500, answer.JSONDefault)
}

// Heartbeat reports what the machine runs (POST
// /v1/license/sessions/heartbeat).
func (c *Client) Heartbeat(ctx context.Context, seq int64, sessions []uuid.UUID) (report.Heartbeat, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	if sessions == nil {
		sessions = []uuid.UUID{}
	}
	answer, err := c.api.HeartbeatLicenseSessionsWithResponse(ctx, cloudapi.HeartbeatRequest{
		MachineId: c.machine.ID, BootId: c.machine.BootID, Seq: seq, Sessions: sessions,
	})
	if err != nil {
		return report.Heartbeat{}, unreachable(err)
	}
	if answer.JSON200 == nil {
		return report.Heartbeat{}, refusal(answer.HTTPResponse, answer.JSON400, answer.JSON401, answer.JSON413, answer.JSON415,
			answer.JSON500, answer.JSONDefault)
	}
	data := answer.JSON200.Data
	return report.Heartbeat{
		Applied: data.Applied, Released: data.Released, Unknown: data.Unknown, NextSeconds: int(data.NextHeartbeatSeconds),
	}, nil
}
