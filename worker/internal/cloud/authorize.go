package cloud

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/netrules"
	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/worker/internal/browser/bundle"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// Authorize requests a slot (POST /v1/license/authorize). It implements
// launch.License. data.allowed is the verdict; an answer whose status
// contradicts it is invalid (specification 4.2).
func (c *Client) Authorize(ctx context.Context, authorization launch.Authorization) (launch.Grant, error) {
	credential := c.credential(authorization.OrganizationKey)
	grant, err := c.authorize(ctx, credential, authorization)
	if ends, found := withoutNeverConnected(authorization.Ends); found && fault.Is(err, fault.Validation) { // a cloud of an earlier version refuses it
		authorization.Ends = ends
		grant, err = c.authorize(ctx, credential, authorization)
	}
	c.recordOutcome(ctx, credential, err, false)
	c.recordVerdict(credential, grant, err)
	return grant, err
}

func (c *Client) authorize(ctx context.Context, credential credential, authorization launch.Authorization) (launch.Grant, error) {
	if credential.key.IsZero() {
		return launch.Grant{}, errNoKey()
	}
	ctx, cancel := c.callContext(ctx, "authorizeLaunch", authorization.Poll)
	defer cancel()
	if err := c.checkCompatible(ctx); err != nil {
		return launch.Grant{}, err
	}
	request := cloudapi.AuthorizeRequest{
		MachineId: c.machine.ID, BootId: c.machine.BootID, SessionId: authorization.SessionID, ProfileId: authorization.ProfileID,
	}
	if authorization.Wait > 0 {
		request.WaitSeconds, request.PollSeconds = new(wholeSeconds(authorization.Wait)), new(wholeSeconds(authorization.Poll))
	}
	if len(authorization.Ends) > 0 {
		request.Ends = new(carriedEnds(authorization.Ends))
	}
	if spec, ok := authorization.Spec.(*sharedapi.LaunchSpec); ok {
		version := int32(authorization.BrowserVersion)
		filled := *spec
		filled.BrowserVersion = &version
		request.Spec = &filled
	}
	answer, err := c.api.AuthorizeLaunchWithResponse(ctx, request, credential.sign)
	if err != nil {
		return launch.Grant{}, callFault(err)
	}
	switch {
	case answer.JSON200 != nil && bool(answer.JSON200.Success) && answer.JSON200.Data.Allowed:
		return toGrant(authorization, answer.JSON200.Data)
	case answer.JSON200 != nil && isRefusal(*answer.JSON200):
		return refused(authorization, answer.JSON200.Data, answer.HTTPResponse)
	case answer.JSON402 != nil && isRefusal(*answer.JSON402):
		return refused(authorization, answer.JSON402.Data, answer.HTTPResponse)
	case answer.JSON402 != nil:
		return launch.Grant{}, invalidAnswer(errors.New("a refusal without a reason"))
	}
	return launch.Grant{}, credential.answerFault(answer.HTTPResponse, answer.Body)
}

// isRefusal reports whether the answer is a refusal with a reason
// (specification 2.6).
func isRefusal(answer cloudapi.AuthorizeResponse) bool {
	return bool(answer.Success) && !answer.Data.Allowed && answer.Data.Reason != nil
}

func toGrant(authorization launch.Authorization, verdict cloudapi.Authorization) (launch.Grant, error) {
	config := verdict.ProfileConfig
	granted := launch.Grant{SlotID: verdict.SlotId, Full: verdict.Limit != nil && int64(verdict.Current) >= int64(*verdict.Limit)}
	switch {
	case config == nil && authorization.ProfileID != nil:
		return granted, nil // a separate call reads the configuration
	case config == nil:
		return launch.Grant{}, invalidAnswer(errors.New("a grant for a spec without profileConfig"))
	}
	if err := checkConfig(*config, authorization.ProfileID); err != nil {
		return launch.Grant{}, err
	}
	var err error
	granted.Profile, err = toProfile(*config)
	return granted, err
}

// checkConfig returns an error if the configuration is empty or belongs to
// another profile than the requested one.
func checkConfig(config cloudapi.ProfileConfig, profileID *uuid.UUID) error {
	switch {
	case config.ProfileId == uuid.Nil || config.BrowserVersion <= 0:
		return invalidAnswer(errors.New("a grant with an empty profileConfig"))
	case profileID != nil && *profileID != config.ProfileId:
		return invalidAnswer(errors.New("a grant for another profile"))
	}
	return nil
}

// withoutNeverConnected returns the ends with the reason that earlier versions of the cloud have
// for sessions without a client, and whether there is one.
func withoutNeverConnected(all []launch.Ended) (ends []launch.Ended, found bool) {
	ends = slices.Clone(all)
	for i := range ends {
		if ends[i].Reason == session.NeverConnected {
			ends[i].Reason, found = session.Idle, true
		}
	}
	return ends, found
}

func carriedEnds(all []launch.Ended) []cloudapi.CarriedEnd {
	carried := make([]cloudapi.CarriedEnd, len(all))
	for i, end := range all {
		carried[i] = cloudapi.CarriedEnd{
			SessionId: end.SessionID, ProfileId: end.ProfileID, EndedAt: &end.At,
			Status: new(cloudapi.EndedStatus(end.Status)), EndReason: new(sharedapi.EndReason(end.Reason)),
		}
	}
	return carried
}

// wholeSeconds rounds up, so that a wait is over before the cloud ends it.
func wholeSeconds(d time.Duration) int32 { return int32((d + time.Second - 1) / time.Second) }

// refused returns the refusal of a launch, and whether it is still queued.
func refused(authorization launch.Authorization, verdict cloudapi.Authorization, response *http.Response) (launch.Grant, error) {
	refusal := refusalFault(authorization, verdict)
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil {
		refusal.RetryAfter = time.Duration(seconds) * time.Second
	}
	return launch.Grant{Queued: verdict.Queued != nil && *verdict.Queued}, refusal
}

// refusalFault returns the worker's 402 (DESIGN 7). A detail on the
// requesting field names the reason.
func refusalFault(authorization launch.Authorization, verdict cloudapi.Authorization) *fault.Error {
	field, message := "profileId", "All slots of the organization are in use."
	if authorization.Spec != nil {
		field = "spec"
	}
	if *verdict.Reason == cloudapi.RefusalReasonProfileLimit {
		message = "The organization has reached the profile limit of its plan. Delete a profile or change the plan."
	}
	constraint := map[string]any{"reason": *verdict.Reason, "current": verdict.Current, "limit": verdict.Limit}
	if verdict.ProfileCount != nil {
		constraint["profileCount"] = *verdict.ProfileCount
	}
	return fault.New(fault.PaymentRequired, message, fault.Detail{
		Field: field, Code: fault.Custom, Message: string(*verdict.Reason), Constraint: constraint,
	})
}

func toProfile(config cloudapi.ProfileConfig) (launch.Profile, error) {
	profile := launch.Profile{ID: config.ProfileId, Name: config.Name, BrowserVersion: int(config.BrowserVersion), Persist: config.Persist}
	var err error
	if profile.Criteria, err = settings.Convert[bundle.Criteria](config); err != nil {
		return launch.Profile{}, err
	}
	if profile.Settings, err = settings.Convert[launch.Settings](config); err != nil {
		return launch.Profile{}, err
	}
	if profile.OrganizationNetwork, err = settings.Convert[*netrules.Rules](config.OrganizationNetwork); err != nil {
		return launch.Profile{}, err
	}
	if config.Proxy != nil && config.Proxy.Password != nil {
		profile.Settings.Proxy.Password = *config.Proxy.Password
	}
	return profile, nil
}
