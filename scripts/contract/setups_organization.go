package main

import (
	"context"
	"crypto/rand"
	"strings"

	"github.com/google/uuid"
	openapi_types "github.com/oapi-codegen/runtime/types"

	"github.com/browser-svc/svc/gen/cloudapi"
)

// organizationSetups are the setups of organizations, their keys, members, profiles
// and subscriptions.
func (p *exampleRunner) organizationSetups() map[string]func(context.Context) (exampleSetup, error) {
	slug := func() exampleSetup {
		return exampleSetup{body: map[string]any{"slug": "org-" + strings.ToLower(rand.Text()[:10])}}
	}
	onPlan := func(plan string) func(context.Context) (exampleSetup, error) {
		return func(ctx context.Context) (exampleSetup, error) {
			_, s, err := p.newCustomer(ctx, plan)
			return s, err
		}
	}
	return map[string]func(context.Context) (exampleSetup, error){
		"createOrganization": func(context.Context) (exampleSetup, error) {
			s := slug()
			s.after = p.activateSeeded // the request has activated the new one
			return s, nil
		},
		"updateOrganization": func(context.Context) (exampleSetup, error) { return slug(), nil },
		"deleteOrganization": p.deleteOrganizationSetup,
		"updateApiKey":       p.keySetup,
		"revokeApiKey":       p.keySetup,
		"rotateApiKey":       p.keySetup,
		"updateMember":       p.memberSetup,
		"deleteMember":       p.memberSetup,
		"inviteMember": func(context.Context) (exampleSetup, error) {
			return exampleSetup{body: map[string]any{"email": strings.ToLower(rand.Text()) + "@example.com"}}, nil
		},
		"revokeInvitation":   p.invitationSetup,
		"acceptInvitation":   p.acceptSetup,
		"createProfile":      p.versionSetup,
		"deleteProfile":      p.profileSetup,
		"startCheckout":      onPlan("free"),
		"changePlan":         onPlan("team"),
		"cancelSubscription": onPlan("team"),
		"openBillingPortal":  onPlan("team"),
		"listAddOns":         onPlan("team"),
		"addAddOn":           onPlan("team"),
		"removeAddOn":        p.addOnSetup,
		"resumeSubscription": p.resumeSetup,
	}
}

// activateSeeded makes the seeded organization active for the owner.
func (p *exampleRunner) activateSeeded(ctx context.Context) error {
	_, err := requireSuccess(p.seed.Owner.api.ActivateOrganizationWithResponse(ctx, p.seed.OrganizationID))
	return err
}

// newCustomer creates a user with an organization on a plan.
func (p *exampleRunner) newCustomer(ctx context.Context, plan string) (*user, exampleSetup, error) {
	owner, err := p.newUser(ctx, "Ada")
	if err != nil {
		return nil, exampleSetup{}, err
	}
	tenant, err := p.newTenant(ctx, owner, "Customers", plan)
	return owner, exampleSetup{header: bearer(owner), path: map[string]string{"organizationId": tenant.OrganizationID.String()}}, err
}

func (p *exampleRunner) deleteOrganizationSetup(ctx context.Context) (exampleSetup, error) {
	owner, s, err := p.newCustomer(ctx, "free")
	if err != nil {
		return s, err
	}
	found, err := requireSuccess(owner.api.GetOrganizationWithResponse(ctx, uuid.MustParse(s.path["organizationId"])))
	if err != nil {
		return s, err
	}
	s.query = map[string]string{"confirmSlug": found.JSON200.Data.Slug}
	return s, nil
}

func (p *exampleRunner) keySetup(ctx context.Context) (exampleSetup, error) {
	_, id, err := p.newKey(ctx, p.seed.Owner, p.seed.OrganizationID)
	return exampleSetup{path: map[string]string{"keyId": id.String()}}, err
}

// memberSetup is a setup with a separate member, who may be removed.
func (p *exampleRunner) memberSetup(ctx context.Context) (exampleSetup, error) {
	member, err := p.newMember(ctx, p.seed.Owner, p.seed.OrganizationID, "member")
	if err != nil {
		return exampleSetup{}, err
	}
	listed, err := requireSuccess(p.seed.Owner.api.ListMembersWithResponse(ctx, p.seed.OrganizationID, &cloudapi.ListMembersParams{Limit: new(int32(100))}))
	if err != nil {
		return exampleSetup{}, err
	}
	for _, item := range listed.JSON200.Data.Items {
		if string(item.Email) == member.Email {
			return exampleSetup{path: map[string]string{"memberId": item.Id.String()}}, nil
		}
	}
	return exampleSetup{}, errNotListed
}

func (p *exampleRunner) invitationSetup(ctx context.Context) (exampleSetup, error) {
	response, err := requireSuccess(p.seed.Owner.api.InviteMemberWithResponse(ctx, p.seed.OrganizationID, cloudapi.InviteMemberRequest{
		Email: openapi_types.Email(strings.ToLower(rand.Text()) + "@example.com"), Role: "member",
	}))
	if err != nil {
		return exampleSetup{}, err
	}
	return exampleSetup{path: map[string]string{"invitationId": response.JSON201.Data.Id.String()}}, nil
}

func (p *exampleRunner) acceptSetup(ctx context.Context) (exampleSetup, error) {
	guest, err := p.newUser(ctx, "Guest")
	if err != nil {
		return exampleSetup{}, err
	}
	if err := p.verify(ctx, guest); err != nil {
		return exampleSetup{}, err
	}
	token, err := p.invite(ctx, p.seed.Owner, p.seed.OrganizationID, guest, "member")
	return exampleSetup{header: bearer(guest), body: map[string]any{"token": token}}, err
}

func (p *exampleRunner) versionSetup(context.Context) (exampleSetup, error) {
	return exampleSetup{body: map[string]any{"browserVersion": p.seed.BrowserVersion}}, nil
}

func (p *exampleRunner) profileSetup(ctx context.Context) (exampleSetup, error) {
	id, err := p.newProfile(ctx, p.seed.Owner, p.seed.BrowserVersion)
	return exampleSetup{path: map[string]string{"profileId": id.String()}}, err
}

func (p *exampleRunner) addOnSetup(ctx context.Context) (exampleSetup, error) {
	owner, s, err := p.newCustomer(ctx, "team")
	if err != nil {
		return s, err
	}
	bought, err := requireSuccess(owner.api.AddAddOnWithResponse(ctx, cloudapi.AddAddOnRequest{AddOn: "profiles"}))
	if err != nil {
		return s, err
	}
	s.path["addOnId"] = bought.JSON200.Data.AddOns[0].Id.String()
	return s, nil
}

func (p *exampleRunner) resumeSetup(ctx context.Context) (exampleSetup, error) {
	owner, s, err := p.newCustomer(ctx, "team")
	if err != nil {
		return s, err
	}
	_, err = requireSuccess(owner.api.CancelSubscriptionWithResponse(ctx))
	return s, err
}
