package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/api/access"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/page"
)

// Auth serves the Authentication operations.
type Auth struct {
	Accounts      accounts
	SecureCookies bool // whether browsers use https
	SingleSignOn  bool // whether an OpenID provider is configured
	Mail          bool // whether a mail server is configured
}

type accounts interface {
	SignUp(ctx context.Context, client auth.Client, n auth.NewUser) (auth.Session, error)
	SignIn(ctx context.Context, client auth.Client, email, password string) (auth.Session, error)
	CurrentSignUpPolicy(ctx context.Context) (auth.SignUpPolicy, error)
	CreateSignInLink(ctx context.Context, userID uuid.UUID) (auth.SignInLink, error)
	SignInWithLink(ctx context.Context, client auth.Client, token string) (auth.Session, error)
	UpdateUser(ctx context.Context, userID uuid.UUID, name *string) (auth.User, error)
	SignOut(ctx context.Context, token string) error
	SignOutEverywhere(ctx context.Context, userID uuid.UUID) error
	Session(ctx context.Context, token string) (auth.Session, error)
	ListSessions(ctx context.Context, caller auth.Caller, r page.Request) (page.Page[auth.SessionInfo], error)
	EndSession(ctx context.Context, userID, sessionID uuid.UUID) error
	VerifyEmail(ctx context.Context, client auth.Client, token string) error
	SendVerification(ctx context.Context, client auth.Client, userID uuid.UUID) error
	RequestReset(ctx context.Context, client auth.Client, email string) error
	ResetPassword(ctx context.Context, client auth.Client, token, password string) error
	ChangePassword(ctx context.Context, client auth.Client, caller auth.Caller, current, password string) error
}

// client returns the client of the request, by which sessions and attempts are
// counted.
func client(ctx context.Context) auth.Client {
	return auth.Client{Address: httpd.ClientAddress(ctx), UserAgent: httpd.UserAgent(ctx)}
}

// SignUp implements the operation signUp.
func (a Auth) SignUp(ctx context.Context, r cloudapi.SignUpRequestObject) (cloudapi.SignUpResponseObject, error) {
	session, err := a.Accounts.SignUp(ctx, client(ctx), auth.NewUser{
		Email: string(r.Body.Email), Password: valueOr(r.Body.Password, ""), Name: r.Body.Name,
		Invitation: valueOr(r.Body.InvitationToken, ""),
	})
	if err != nil {
		return nil, err
	}
	return cloudapi.SignUp201JSONResponse{
		Body: cloudapi.SignInTokenResponse{Success: true, Data: signIn(session)},
		Headers: cloudapi.SignUp201ResponseHeaders{
			SetCookie: a.cookie(session.Token, session.ExpiresAt), Location: "/v1/auth/session",
		},
	}, nil
}

// SignIn implements the operation signIn.
func (a Auth) SignIn(ctx context.Context, r cloudapi.SignInRequestObject) (cloudapi.SignInResponseObject, error) {
	session, err := a.Accounts.SignIn(ctx, client(ctx), string(r.Body.Email), valueOr(r.Body.Password, ""))
	if err != nil {
		return nil, err
	}
	return cloudapi.SignIn200JSONResponse{
		Body:    cloudapi.SignInTokenResponse{Success: true, Data: signIn(session)},
		Headers: cloudapi.SignIn200ResponseHeaders{SetCookie: a.cookie(session.Token, session.ExpiresAt)},
	}, nil
}

// SignOut implements the operation signOut.
func (a Auth) SignOut(ctx context.Context, _ cloudapi.SignOutRequestObject) (cloudapi.SignOutResponseObject, error) {
	if err := a.Accounts.SignOut(ctx, auth.CallerFrom(ctx).Session); err != nil {
		return nil, err
	}
	return cloudapi.SignOut200JSONResponse{
		Body:    cloudapi.EmptyResponse{Success: true, Data: cloudapi.Empty{}},
		Headers: cloudapi.SignOut200ResponseHeaders{SetCookie: a.cookie("", time.Time{})},
	}, nil
}

// GetAuthSession implements the operation getAuthSession.
func (a Auth) GetAuthSession(ctx context.Context, _ cloudapi.GetAuthSessionRequestObject) (cloudapi.GetAuthSessionResponseObject, error) {
	session, err := a.Accounts.Session(ctx, auth.CallerFrom(ctx).Session)
	if err != nil {
		return nil, err
	}
	return cloudapi.GetAuthSession200JSONResponse{Success: true, Data: cloudapi.AuthSession{
		ExpiresAt:            session.ExpiresAt,
		User:                 user(session.User),
		ActiveOrganizationId: uuidOrNil(session.ActiveOrgID),
	}}, nil
}

func (a Auth) cookie(token string, expires time.Time) string {
	return sessionCookie(token, expires, a.SecureCookies)
}

// sessionCookie returns the Set-Cookie header for the token; an empty token
// deletes the cookie.
func sessionCookie(token string, expires time.Time, secure bool) string {
	c := http.Cookie{ //nolint:gosec // Secure where browsers come by https
		Name: access.SessionCookie, Value: token, Path: "/", Expires: expires,
		HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode,
	}
	if token == "" {
		c.MaxAge = -1
	}
	return c.String()
}

func signIn(s auth.Session) cloudapi.SignIn {
	return cloudapi.SignIn{
		Token:                s.Token,
		ExpiresAt:            s.ExpiresAt,
		User:                 user(s.User),
		ActiveOrganizationId: uuidOrNil(s.ActiveOrgID),
	}
}

func user(u auth.User) cloudapi.User {
	return cloudapi.User{
		Id: u.ID, Email: cloudapi.Email(u.Email), Name: u.Name, EmailVerified: u.EmailVerifiedAt != nil, CreatedAt: u.CreatedAt,
	}
}

// uuidOrNil returns a pointer to the ID, or nil for the zero ID.
func uuidOrNil(id uuid.UUID) *uuid.UUID {
	if id == uuid.Nil {
		return nil
	}
	return &id
}
