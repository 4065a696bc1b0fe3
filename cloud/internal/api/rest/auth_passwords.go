package rest

import (
	"context"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/gen/cloudapi"
)

// VerifyEmail implements the operation verifyEmail.
func (a Auth) VerifyEmail(ctx context.Context, r cloudapi.VerifyEmailRequestObject) (cloudapi.VerifyEmailResponseObject, error) {
	if err := a.Accounts.VerifyEmail(ctx, client(ctx), valueOr(r.Body.Token, "")); err != nil {
		return nil, err
	}
	return cloudapi.VerifyEmail200JSONResponse{Success: true, Data: cloudapi.Empty{}}, nil
}

// SendVerificationEmail implements the operation sendVerificationEmail.
func (a Auth) SendVerificationEmail(ctx context.Context, _ cloudapi.SendVerificationEmailRequestObject) (cloudapi.SendVerificationEmailResponseObject, error) {
	if err := a.Accounts.SendVerification(ctx, client(ctx), auth.CallerFrom(ctx).UserID); err != nil {
		return nil, err
	}
	return cloudapi.SendVerificationEmail200JSONResponse{Success: true, Data: cloudapi.Empty{}}, nil
}

// RequestPasswordReset implements the operation requestPasswordReset.
func (a Auth) RequestPasswordReset(ctx context.Context, r cloudapi.RequestPasswordResetRequestObject) (cloudapi.RequestPasswordResetResponseObject, error) {
	if err := a.Accounts.RequestReset(ctx, client(ctx), string(r.Body.Email)); err != nil {
		return nil, err
	}
	return cloudapi.RequestPasswordReset200JSONResponse{Success: true, Data: cloudapi.Empty{}}, nil
}

// ResetPassword implements the operation resetPassword.
func (a Auth) ResetPassword(ctx context.Context, r cloudapi.ResetPasswordRequestObject) (cloudapi.ResetPasswordResponseObject, error) {
	err := a.Accounts.ResetPassword(ctx, client(ctx), valueOr(r.Body.Token, ""), valueOr(r.Body.Password, ""))
	if err != nil {
		return nil, err
	}
	return cloudapi.ResetPassword200JSONResponse{Success: true, Data: cloudapi.Empty{}}, nil
}

// ChangePassword implements the operation changePassword.
func (a Auth) ChangePassword(ctx context.Context, r cloudapi.ChangePasswordRequestObject) (cloudapi.ChangePasswordResponseObject, error) {
	err := a.Accounts.ChangePassword(ctx, client(ctx), auth.CallerFrom(ctx),
		valueOr(r.Body.CurrentPassword, ""), valueOr(r.Body.NewPassword, ""))
	if err != nil {
		return nil, err
	}
	return cloudapi.ChangePassword200JSONResponse{Success: true, Data: cloudapi.Empty{}}, nil
}
