package rest

import (
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/webapp"
)

// Dashboard serves the dashboard.
type Dashboard struct {
	Bundle *webapp.Bundle
}

// mailRoutes are the pages that links in mails open. They are the operations
// openVerifyEmail, openResetPassword and openAcceptInvitation.
var mailRoutes = []string{"/account/verify-email", "/account/reset-password", "/account/accept-invitation"}

// DashboardRoutes are the pages of the dashboard that are not operations.
var DashboardRoutes = []string{
	"/", "/sign-in", "/sign-in/link", "/sign-up", "/forgot-password",
	"/overview", "/sessions", "/sessions/:id", "/profiles", "/profiles/new", "/profiles/:id", "/machines", "/connect",
	"/settings", "/settings/:section", "/billing", "/audit-log", "/account", "/organizations/new",
}

// Register adds the routes.
func (d Dashboard) Register(e *echo.Echo) {
	d.Bundle.Register(e, slices.Concat(mailRoutes, DashboardRoutes)...)
}
