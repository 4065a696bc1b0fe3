package rest

import (
	"context"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/gen/cloudapi"
)

// GetAuthOptions implements the operation getAuthOptions.
func (a Auth) GetAuthOptions(ctx context.Context, _ cloudapi.GetAuthOptionsRequestObject) (cloudapi.GetAuthOptionsResponseObject, error) {
	policy, err := a.Accounts.CurrentSignUpPolicy(ctx)
	if err != nil {
		return nil, err
	}
	return cloudapi.GetAuthOptions200JSONResponse{Success: true, Data: cloudapi.AuthOptions{
		SignUp: cloudapi.SignUpPolicy(policy), SingleSignOn: a.SingleSignOn, SendsMail: a.Mail,
	}}, nil
}

// CreateSignInLink implements the operation createSignInLink.
func (a Auth) CreateSignInLink(ctx context.Context, _ cloudapi.CreateSignInLinkRequestObject) (cloudapi.CreateSignInLinkResponseObject, error) {
	link, err := a.Accounts.CreateSignInLink(ctx, auth.CallerFrom(ctx).UserID)
	if err != nil {
		return nil, err
	}
	return cloudapi.CreateSignInLink200JSONResponse{Success: true, Data: cloudapi.SignInLink{Url: link.URL, ExpiresAt: link.ExpiresAt}}, nil
}

// SignInWithLink implements the operation signInWithLink.
func (a Auth) SignInWithLink(ctx context.Context, r cloudapi.SignInWithLinkRequestObject) (cloudapi.SignInWithLinkResponseObject, error) {
	session, err := a.Accounts.SignInWithLink(ctx, client(ctx), valueOr(r.Body.Token, ""))
	if err != nil {
		return nil, err
	}
	return cloudapi.SignInWithLink200JSONResponse{
		Body:    cloudapi.SignInTokenResponse{Success: true, Data: signIn(session)},
		Headers: cloudapi.SignInWithLink200ResponseHeaders{SetCookie: a.cookie(session.Token, session.ExpiresAt)},
	}, nil
}

// UpdateUser implements the operation updateUser.
func (a Auth) UpdateUser(ctx context.Context, r cloudapi.UpdateUserRequestObject) (cloudapi.UpdateUserResponseObject, error) {
	updated, err := a.Accounts.UpdateUser(ctx, auth.CallerFrom(ctx).UserID, r.Body.Name)
	if err != nil {
		return nil, err
	}
	return cloudapi.UpdateUser200JSONResponse{Success: true, Data: user(updated)}, nil
}
