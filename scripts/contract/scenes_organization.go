package main

import (
	"context"
	"crypto/rand"
	"strings"

	"github.com/google/uuid"
	openapi_types "github.com/oapi-codegen/runtime/types"

	"github.com/browser-svc/svc/gen/cloudapi"
)

// organizationScenes are those of organizations, their keys, members, profiles
// and subscriptions.
func (p *player) organizationScenes() map[string]func(context.Context) (scene, error) {
	slug := func() scene {
		return scene{body: map[string]any{"slug": "org-" + strings.ToLower(rand.Text()[:10])}}
	}
	onPlan := func(plan string) func(context.Context) (scene, error) {
		return func(ctx context.Context) (scene, error) {
			_, s, err := p.customer(ctx, plan)
			return s, err
		}
	}
	return map[string]func(context.Context) (scene, error){
		"createOrganization": func(context.Context) (scene, error) {
			s := slug()
			s.after = p.activateSeeded // the new one is active now
			return s, nil
		},
		"updateOrganization": func(context.Context) (scene, error) { return slug(), nil },
		"deleteOrganization": p.deleteOrganizationScene,
		"updateApiKey":       p.keyScene,
		"revokeApiKey":       p.keyScene,
		"rotateApiKey":       p.keyScene,
		"updateMember":       p.memberScene,
		"deleteMember":       p.memberScene,
		"inviteMember": func(context.Context) (scene, error) {
			return scene{body: map[string]any{"email": strings.ToLower(rand.Text()) + "@example.com"}}, nil
		},
		"revokeInvitation":   p.invitationScene,
		"acceptInvitation":   p.acceptScene,
		"createProfile":      p.versionScene,
		"deleteProfile":      p.profileScene,
		"startCheckout":      onPlan("free"),
		"changePlan":         onPlan("team"),
		"cancelSubscription": onPlan("team"),
		"openBillingPortal":  onPlan("team"),
		"listAddOns":         onPlan("team"),
		"addAddOn":           onPlan("team"),
		"removeAddOn":        p.addOnScene,
		"resumeSubscription": p.resumeScene,
	}
}

// activateSeeded makes the seeded organization the owner's active one.
func (p *player) activateSeeded(ctx context.Context) error {
	_, err := success(p.seed.Owner.api.ActivateOrganizationWithResponse(ctx, p.seed.OrganizationID))
	return err
}

// customer is somebody with an organization on a plan.
func (p *player) customer(ctx context.Context, plan string) (*person, scene, error) {
	owner, err := p.newPerson(ctx, "Ada")
	if err != nil {
		return nil, scene{}, err
	}
	of, err := p.newTenant(ctx, owner, "Customers", plan)
	return owner, scene{header: bearer(owner), path: map[string]string{"organizationId": of.OrganizationID.String()}}, err
}

func (p *player) deleteOrganizationScene(ctx context.Context) (scene, error) {
	owner, s, err := p.customer(ctx, "free")
	if err != nil {
		return s, err
	}
	found, err := success(owner.api.GetOrganizationWithResponse(ctx, uuid.MustParse(s.path["organizationId"])))
	if err != nil {
		return s, err
	}
	s.query = map[string]string{"confirmSlug": found.JSON200.Data.Slug}
	return s, nil
}

func (p *player) keyScene(ctx context.Context) (scene, error) {
	_, id, err := p.newKey(ctx, p.seed.Owner, p.seed.OrganizationID)
	return scene{path: map[string]string{"keyId": id.String()}}, err
}

// memberScene is about a member of their own: one may go.
func (p *player) memberScene(ctx context.Context) (scene, error) {
	member, err := p.newMember(ctx, p.seed.Owner, p.seed.OrganizationID, "member")
	if err != nil {
		return scene{}, err
	}
	listed, err := success(p.seed.Owner.api.ListMembersWithResponse(ctx, p.seed.OrganizationID, &cloudapi.ListMembersParams{Limit: new(int32(100))}))
	if err != nil {
		return scene{}, err
	}
	for _, one := range listed.JSON200.Data.Items {
		if string(one.Email) == member.Email {
			return scene{path: map[string]string{"memberId": one.Id.String()}}, nil
		}
	}
	return scene{}, errNotListed
}

func (p *player) invitationScene(ctx context.Context) (scene, error) {
	made, err := success(p.seed.Owner.api.InviteMemberWithResponse(ctx, p.seed.OrganizationID, cloudapi.InviteMemberRequest{
		Email: openapi_types.Email(strings.ToLower(rand.Text()) + "@example.com"), Role: "member",
	}))
	if err != nil {
		return scene{}, err
	}
	return scene{path: map[string]string{"invitationId": made.JSON201.Data.Id.String()}}, nil
}

func (p *player) acceptScene(ctx context.Context) (scene, error) {
	guest, err := p.newPerson(ctx, "Guest")
	if err != nil {
		return scene{}, err
	}
	if err := p.verify(ctx, guest); err != nil {
		return scene{}, err
	}
	token, err := p.invite(ctx, p.seed.Owner, p.seed.OrganizationID, guest, "member")
	return scene{header: bearer(guest), body: map[string]any{"token": token}}, err
}

func (p *player) versionScene(context.Context) (scene, error) {
	return scene{body: map[string]any{"browserVersion": p.seed.BrowserVersion}}, nil
}

func (p *player) profileScene(ctx context.Context) (scene, error) {
	id, err := p.newProfile(ctx, p.seed.Owner, p.seed.BrowserVersion)
	return scene{path: map[string]string{"profileId": id.String()}}, err
}

func (p *player) addOnScene(ctx context.Context) (scene, error) {
	owner, s, err := p.customer(ctx, "team")
	if err != nil {
		return s, err
	}
	bought, err := success(owner.api.AddAddOnWithResponse(ctx, cloudapi.AddAddOnRequest{AddOn: "profiles"}))
	if err != nil {
		return s, err
	}
	s.path["addOnId"] = bought.JSON200.Data.AddOns[0].Id.String()
	return s, nil
}

func (p *player) resumeScene(ctx context.Context) (scene, error) {
	owner, s, err := p.customer(ctx, "team")
	if err != nil {
		return s, err
	}
	_, err = success(owner.api.CancelSubscriptionWithResponse(ctx))
	return s, err
}
