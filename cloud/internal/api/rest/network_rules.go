package rest

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/tenancy/org"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/netrules"
	"github.com/browser-svc/svc/shared/settings"
)

// CheckNetworkRules implements the operation checkNetworkRules.
func (o Organizations) CheckNetworkRules(ctx context.Context, r cloudapi.CheckNetworkRulesRequestObject) (cloudapi.CheckNetworkRulesResponseObject, error) {
	check, err := networkCheck(*r.Body)
	if err != nil {
		return nil, err
	}
	v, err := o.Organizations.CheckNetwork(ctx, auth.CallerFrom(ctx).OrgID, check)
	if err != nil {
		return nil, err
	}
	return cloudapi.CheckNetworkRules200JSONResponse{Success: true, Data: networkDecision(v)}, nil
}

func networkCheck(body cloudapi.CheckNetworkRulesRequest) (org.NetworkCheck, error) {
	check := org.NetworkCheck{Request: netrules.Request{
		URL:    body.Url,
		Method: string(valueOr(body.Method, cloudapi.RequestMethodGet)),
		Type:   string(valueOr(body.Type, cloudapi.RequestTypeDocument)),
	}}
	if body.Organization != nil {
		check.Organization = &netrules.Rules{} // null: none, and not those that are stored
		if err := json.Unmarshal(body.Organization, check.Organization); err != nil {
			return check, fmt.Errorf("read the network rules: %w", err)
		}
	}
	var err error
	if check.Profile, err = settings.Convert[*netrules.Rules](body.Profile); err != nil {
		return check, err
	}
	check.Launch, err = settings.Convert[*netrules.Rules](body.Launch)
	return check, err
}

func networkDecision(v netrules.Verdict) cloudapi.NetworkDecision {
	d := cloudapi.NetworkDecision{Decision: cloudapi.NetworkDecisionAllow}
	switch {
	case v.Ask:
		d.Decision = cloudapi.NetworkDecisionAsk
	case v.Denied:
		d.Decision = cloudapi.NetworkDecisionDeny
	}
	if v.Rule != "" {
		d.Level, d.Rule = new(cloudapi.DecidingLevel(v.Level)), &v.Rule
	}
	return d
}
