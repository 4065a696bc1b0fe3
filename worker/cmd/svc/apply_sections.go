package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
	svc "github.com/browser-svc/svc/openapi/sdk/go"
)

func (p *plan) addProfiles(ctx context.Context, described any) error {
	present, err := objects("profile", "name", func(page int32) (listing, error) {
		return result[listing](send(p.api.ListProfiles(ctx, &cloudapi.ListProfilesParams{Page: &page})))
	}, func(id uuid.UUID, changed fields) error {
		return refusal(send(p.api.UpdateProfileWithBody(ctx, id, nil, contentType, body(changed))))
	}, func(id uuid.UUID) error { return refusal(send(p.api.DeleteProfile(ctx, id, nil))) })
	if err != nil {
		return err
	}
	return p.add("profile", "name", described, present, func(described fields) (string, error) {
		created, err := result[cloudapi.Profile](send(p.api.CreateProfileWithBody(ctx, contentType, body(described))))
		return created.Id.String(), err
	})
}

func (p *plan) addNetwork(ctx context.Context, described any) error {
	organization, err := result[fields](send(p.api.GetOrganization(ctx, p.organization)))
	if err != nil {
		return err
	}
	present, _ := organization["network"].(fields)
	target, _ := described.(fields)
	compared := fields{}
	for field := range present {
		compared[field] = nil // the request replaces all rules
	}
	maps.Copy(compared, target)
	o := object{kind: "network rules", name: "of the organization", id: p.organization.String(), fields: present, update: func(_, _ fields) error {
		return refusal(send(p.api.UpdateOrganizationWithBody(ctx, p.organization, contentType, body(fields{"network": described}))))
	}}
	p.steps = append(p.steps, o.step(compared))
	return nil
}

func (p *plan) addMembers(ctx context.Context, described any) error {
	members, err := objects("member", "email", func(page int32) (listing, error) {
		return result[listing](send(p.api.ListMembers(ctx, p.organization, &cloudapi.ListMembersParams{Page: &page})))
	}, func(id uuid.UUID, changed fields) error {
		return refusal(send(p.api.UpdateMemberWithBody(ctx, p.organization, id, contentType, body(changed))))
	}, func(id uuid.UUID) error { return refusal(send(p.api.DeleteMember(ctx, p.organization, id))) })
	if err != nil {
		return err
	}
	if err := p.keepMembers(ctx, members); err != nil {
		return err
	}
	invitations, err := objects("invitation", "email", func(page int32) (listing, error) {
		return result[listing](send(p.api.ListInvitations(ctx, p.organization, &cloudapi.ListInvitationsParams{Page: &page})))
	}, nil, func(id uuid.UUID) error { return refusal(send(p.api.RevokeInvitation(ctx, p.organization, id))) })
	if err != nil {
		return err
	}
	invite := func(described fields) (string, error) {
		sent, err := result[cloudapi.Invitation](send(p.api.InviteMemberWithBody(ctx, p.organization, contentType, body(described))))
		if sent.AcceptUrl != nil { // the cloud sends no mail
			p.links = append(p.links, fmt.Sprintf("Give %s this link: %s", sent.Email, *sent.AcceptUrl))
		}
		return sent.Id.String(), err
	}
	for i, o := range invitations { // an invitation cannot be changed
		invitations[i].update = func(described, _ fields) error {
			if err := o.remove(); err != nil {
				return err
			}
			if _, err := invite(described); err != nil {
				return fmt.Errorf("the invitation with the role %v was revoked, and the new one was refused: %w", o.fields["role"], err)
			}
			return nil
		}
	}
	return p.add("invitation", "email", described, append(members, invitations...), invite)
}

// keepMembers keeps the owners and the caller from being deleted. The caller of an access token is not known, but the only admin
// that it can delete is its user.
func (p *plan) keepMembers(ctx context.Context, members []object) error {
	if !p.prune {
		return nil
	}
	session, err := result[cloudapi.AuthSession](send(p.api.GetAuthSession(ctx)))
	var refused *svc.Error
	isToken := errors.As(err, &refused) && refused.Status == http.StatusForbidden
	if err != nil && !isToken {
		return err
	}
	for i, m := range members {
		role := m.fields["role"]
		if role == string(cloudapi.RoleOwner) || isToken && role == string(cloudapi.RoleAdmin) || m.id == session.User.Id.String() {
			members[i].remove = nil
		}
	}
	return nil
}

func (p *plan) addAccounts(ctx context.Context, described any) error {
	update := func(id uuid.UUID, changed fields) error {
		return refusal(send(p.api.UpdateServiceAccountWithBody(ctx, p.organization, id, contentType, body(changed))))
	}
	present, err := objects("service account", "name", func(page int32) (listing, error) {
		return result[listing](send(p.api.ListServiceAccounts(ctx, p.organization, &cloudapi.ListServiceAccountsParams{Page: &page})))
	}, update, func(id uuid.UUID) error { return refusal(send(p.api.DeleteServiceAccount(ctx, p.organization, id))) })
	if err != nil {
		return err
	}
	return p.add("service account", "name", described, present, func(described fields) (string, error) {
		request := maps.Clone(described)
		delete(request, "disabled") // a new account is enabled
		created, err := result[cloudapi.ServiceAccount](send(p.api.CreateServiceAccountWithBody(ctx, p.organization, contentType, body(request))))
		if err == nil && described["disabled"] == true {
			err = update(created.Id, fields{"disabled": true})
		}
		return created.Id.String(), err
	})
}

func (p *plan) addWebhooks(ctx context.Context, described any) error {
	update := func(id uuid.UUID, changed fields) error {
		return refusal(send(p.api.UpdateWebhookEndpointWithBody(ctx, id, contentType, body(changed))))
	}
	present, err := objects("webhook", "url", func(page int32) (listing, error) {
		return result[listing](send(p.api.ListWebhookEndpoints(ctx, &cloudapi.ListWebhookEndpointsParams{Page: &page})))
	}, update, func(id uuid.UUID) error { return refusal(send(p.api.DeleteWebhookEndpoint(ctx, id))) })
	if err != nil {
		return err
	}
	return p.add("webhook", "url", described, present, func(described fields) (string, error) {
		request := maps.Clone(described)
		delete(request, "enabled") // a new endpoint is enabled
		created, err := result[cloudapi.CreatedWebhookEndpoint](send(p.api.CreateWebhookEndpointWithBody(ctx, contentType, body(request))))
		if err == nil && described["enabled"] == false {
			err = update(created.Endpoint.Id, fields{"enabled": false})
		}
		return created.Endpoint.Id.String(), err
	})
}
