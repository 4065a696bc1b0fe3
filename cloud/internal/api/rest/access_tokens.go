package rest

import (
	"context"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/page"
	"github.com/browser-svc/svc/shared/pageapi"
)

// AccessTokens serves the Access tokens operations.
type AccessTokens struct {
	Tokens accessTokens
}

type accessTokens interface {
	CreateAccessToken(ctx context.Context, caller auth.Caller, n auth.NewAccessToken) (t auth.AccessToken, secret string, err error)
	ListAccessTokens(ctx context.Context, caller auth.Caller, r page.Request) (page.Page[auth.AccessToken], error)
	RevokeAccessToken(ctx context.Context, caller auth.Caller, tokenID uuid.UUID) error
}

// ListAccessTokens implements the operation listAccessTokens.
func (a AccessTokens) ListAccessTokens(ctx context.Context, r cloudapi.ListAccessTokensRequestObject) (cloudapi.ListAccessTokensResponseObject, error) {
	p := r.Params
	sortBy := valueOr(p.SortBy, cloudapi.AccessTokenSortFieldCreatedAt)
	found, err := a.Tokens.ListAccessTokens(ctx, auth.CallerFrom(ctx), pageapi.Request(p.Page, p.Limit, string(sortBy), p.SortOrder))
	if err != nil {
		return nil, err
	}
	return cloudapi.ListAccessTokens200JSONResponse{Success: true, Data: accessTokenList(found)}, nil
}

// CreateAccessToken implements the operation createAccessToken.
func (a AccessTokens) CreateAccessToken(ctx context.Context, r cloudapi.CreateAccessTokenRequestObject) (cloudapi.CreateAccessTokenResponseObject, error) {
	created, secret, err := a.Tokens.CreateAccessToken(ctx, auth.CallerFrom(ctx), newAccessToken(*r.Body))
	if err != nil {
		return nil, err
	}
	return cloudapi.CreateAccessToken201JSONResponse{
		Body: cloudapi.CreatedAccessTokenResponse{Success: true, Data: cloudapi.CreatedAccessToken{
			Token: secret, AccessToken: accessToken(created),
		}},
		Headers: cloudapi.CreateAccessToken201ResponseHeaders{Location: "/v1/auth/tokens/" + created.ID.String()},
	}, nil
}

// RevokeAccessToken implements the operation revokeAccessToken.
func (a AccessTokens) RevokeAccessToken(ctx context.Context, r cloudapi.RevokeAccessTokenRequestObject) (cloudapi.RevokeAccessTokenResponseObject, error) {
	if err := a.Tokens.RevokeAccessToken(ctx, auth.CallerFrom(ctx), r.TokenId); err != nil {
		return nil, err
	}
	return cloudapi.RevokeAccessToken200JSONResponse{Success: true, Data: cloudapi.Empty{}}, nil
}

func newAccessToken(body cloudapi.CreateAccessTokenRequest) auth.NewAccessToken {
	return auth.NewAccessToken{Name: body.Name, Scopes: scopeNames(body.Scopes), ExpiresAt: utcTime(body.ExpiresAt)}
}

func scopeNames(scopes cloudapi.AccessTokenScopes) []string {
	names := make([]string, len(scopes))
	for i, scope := range scopes {
		names[i] = string(scope)
	}
	return names
}

func accessTokenScopes(names []string) cloudapi.AccessTokenScopes {
	scopes := make(cloudapi.AccessTokenScopes, len(names))
	for i, name := range names {
		scopes[i] = cloudapi.AccessTokenScope(name)
	}
	return scopes
}

func accessTokenList(found page.Page[auth.AccessToken]) cloudapi.AccessTokenList {
	list := cloudapi.AccessTokenList{Items: []cloudapi.AccessToken{}, Pagination: pageapi.Pagination(found)}
	for _, item := range found.Items {
		list.Items = append(list.Items, accessToken(item))
	}
	return list
}

func accessToken(t auth.AccessToken) cloudapi.AccessToken {
	return cloudapi.AccessToken{
		Id: t.ID, Name: t.Name, Scopes: accessTokenScopes(t.Scopes), OrganizationId: t.OrgID, LastFour: t.LastFour,
		CreatedAt: t.CreatedAt, LastUsedAt: t.LastUsedAt, ExpiresAt: t.ExpiresAt,
	}
}
