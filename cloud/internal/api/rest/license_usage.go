package rest

import (
	"context"
	"time"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/gen/cloudapi"
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
	usage := cloudapi.LicenseUsage{
		At: found.At, Current: int32(found.Current), Limit: limited(found.Limit),
		RunningSessions: int32(found.Running), ReservedSlots: int32(found.Reserved),
		Step: step, StepSeconds: int32(found.Step.Seconds()), DataFrom: found.DataFrom, Points: []cloudapi.LicenseUsagePoint{},
	}
	for _, p := range found.Points {
		usage.Points = append(usage.Points, cloudapi.LicenseUsagePoint{
			At: p.At, RunningSessions: int32(p.Running), ReservedSlots: int32(p.Reserved), Maximum: int32(p.Maximum),
			Limit: limited(p.Limit), Refused: p.Refused,
		})
	}
	return cloudapi.GetLicenseUsage200JSONResponse{Success: true, Data: usage}, nil
}
