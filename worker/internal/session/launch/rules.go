package launch

import (
	"fmt"
	"slices"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/netrules"
)

// rules returns the rules of all levels, each of which narrows the others: unlike other
// settings, those of the request do not replace those of the profile. Nil: there are none.
func (s *Service) rules(r Request, profile Profile, startURLs []string) (*netrules.Policy, error) {
	level, prefix := "profile", "profile.network."
	if r.Spec != nil {
		level, prefix = "spec", "spec.network."
	}
	details := slices.Concat(
		s.checkAds(r.OperatorNetwork, "operator.network."),
		profile.OrganizationNetwork.Check("organization.network."), s.checkAds(profile.OrganizationNetwork, "organization.network."),
		profile.Settings.Network.Check(prefix), s.checkAds(profile.Settings.Network, prefix),
		r.Override.Network.Check("browser.network."), s.checkAds(r.Override.Network, "browser.network."),
	)
	if len(details) > 0 {
		return nil, fault.Invalid(details...)
	}
	rules, err := netrules.NewPolicy(
		netrules.Level{Name: "operator", Rules: r.OperatorNetwork},
		netrules.Level{Name: "organization", Rules: profile.OrganizationNetwork},
		netrules.Level{Name: level, Rules: profile.Settings.Network},
		netrules.Level{Name: "launch", Rules: r.Override.Network},
		netrules.Level{Name: "replay", Rules: r.replayRules()},
	)
	if err != nil {
		return nil, fmt.Errorf("network rules: %w", err)
	}
	for i, address := range startURLs {
		if v := rules.Navigate(address); v.Denied && !v.Ask { // a person is asked after the start
			details = append(details, fault.Detail{
				Field: fmt.Sprintf("browser.startUrls[%d]", i), Code: fault.Custom, Message: "is denied by " + v.String() + alsoInProfile, Received: address,
			})
		}
	}
	if len(details) > 0 {
		return nil, fault.Invalid(details...)
	}
	return rules, nil
}

// checkAds refuses rules that need a block list on a worker without one.
func (s *Service) checkAds(rules *netrules.Rules, prefix string) []fault.Detail {
	if s.BlocksAds || rules == nil || !slices.Contains(rules.Block, "ads") {
		return nil
	}
	return []fault.Detail{{
		Field: prefix + "block", Code: fault.Custom, Message: "must not contain ads: this worker has no block list (BLOCK_LIST is not set)", Received: rules.Block,
	}}
}
