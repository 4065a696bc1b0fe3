package rest

import (
	"context"
	"time"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/fault"
)

// usageSteps are the lengths of the steps in the OpenAPI document.
var usageSteps = map[cloudapi.LicenseUsageStep]time.Duration{
	"1m": time.Minute, "5m": 5 * time.Minute, "15m": 15 * time.Minute, "30m": 30 * time.Minute,
	"1h": time.Hour, "3h": 3 * time.Hour, "6h": 6 * time.Hour, "12h": 12 * time.Hour, "1d": 24 * time.Hour,
}

// defaultUsageStep is the default of the OpenAPI document.
const defaultUsageStep cloudapi.LicenseUsageStep = "15m"

// GetLicenseUsage implements the operation getLicenseUsage.
func (h License) GetLicenseUsage(ctx context.Context, r cloudapi.GetLicenseUsageRequestObject) (cloudapi.GetLicenseUsageResponseObject, error) {
	step := valueOr(r.Params.Step, defaultUsageStep)
	found, err := h.Licenses.History(ctx, auth.CallerFrom(ctx).OrgID,
		license.HistoryRequest{From: utcTime(r.Params.From), To: utcTime(r.Params.To), Step: usageSteps[step]})
	if err != nil {
		return nil, err
	}
	sums, err := h.Feed.Usage(ctx, auth.CallerFrom(ctx).OrgID, found.From, found.To)
	if err != nil {
		return nil, err
	}
	usage := cloudapi.LicenseUsage{
		At: found.At, Current: int32(found.Current), Limit: limited(found.Limit),
		RunningSessions: int32(found.Running), ReservedSlots: int32(found.Reserved),
		Step: step, StepSeconds: int32(found.Step.Seconds()), DataFrom: found.DataFrom,
		BytesSent: sums.BytesSent, BytesReceived: sums.BytesReceived, BrowserHours: sums.BrowserHours, Points: []cloudapi.LicenseUsagePoint{},
	}
	for _, p := range found.Points {
		usage.Points = append(usage.Points, cloudapi.LicenseUsagePoint{
			At: p.At, RunningSessions: int32(p.Running), ReservedSlots: int32(p.Reserved), Maximum: int32(p.Maximum),
			Limit: limited(p.Limit), Refused: p.Refused,
		})
	}
	return cloudapi.GetLicenseUsage200JSONResponse{Success: true, Data: usage}, nil
}

// usageDays is how long GetLicenseUsageByDay looks back by default.
const usageDays = 30 * 24 * time.Hour

// GetLicenseUsageByDay implements the operation getLicenseUsageByDay.
func (h License) GetLicenseUsageByDay(ctx context.Context, r cloudapi.GetLicenseUsageByDayRequestObject) (cloudapi.GetLicenseUsageByDayResponseObject, error) {
	end := valueOr(r.Params.To, time.Now())
	start := valueOr(r.Params.From, end.Add(-usageDays))
	if !start.Before(end) {
		return nil, fault.Field("from", "must be before to")
	}
	found, err := h.Feed.UsageByDay(ctx, auth.CallerFrom(ctx).OrgID, start.UTC(), end.UTC())
	if err != nil {
		return nil, err
	}
	items := []cloudapi.UsageDay{}
	for _, d := range found {
		items = append(items, cloudapi.UsageDay{
			Day: d.Day, ProfileId: d.ProfileID, ProfileName: d.ProfileName, KeyId: d.KeyID, KeyName: d.KeyName, Sessions: d.Sessions,
			BrowserHours: d.BrowserHours, BytesSent: d.BytesSent, BytesReceived: d.BytesReceived, Denied: d.Denied,
		})
	}
	return cloudapi.GetLicenseUsageByDay200JSONResponse{Success: true, Data: cloudapi.UsageDays{Items: items}}, nil
}
