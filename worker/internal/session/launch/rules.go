package launch

import (
	"fmt"
	"slices"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/netrules"
)

// rules returns the rules of all levels, each of which narrows the others: unlike other
// settings, those of the request do not replace those of the profile. Nil: there are none.
func (r Request) rules(profile Profile, startURLs []string) (*netrules.Policy, error) {
	level, prefix := "profile", "profile.network."
	if r.Spec != nil {
		level, prefix = "spec", "spec.network."
	}
	details := slices.Concat(
		checkRules(profile.OrganizationNetwork, "organization.network."), checkRules(profile.Settings.Network, prefix),
		checkRules(r.Override.Network, "browser.network."),
	)
	if len(details) > 0 {
		return nil, fault.Invalid(details...)
	}
	rules, err := netrules.NewPolicy(
		netrules.Level{Name: "organization", Rules: profile.OrganizationNetwork},
		netrules.Level{Name: level, Rules: profile.Settings.Network},
		netrules.Level{Name: "launch", Rules: r.Override.Network},
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

// checkRules returns the errors of rules that the API document cannot express.
func checkRules(rules *netrules.Rules, prefix string) []fault.Detail {
	details := rules.Check(prefix)
	if rules != nil && slices.Contains(rules.Block, "ads") {
		details = append(details, fault.Detail{
			Field: prefix + "block", Code: fault.Custom, Message: "must not contain ads: this worker has no block list", Received: rules.Block,
		})
	}
	return details
}
