package app

import "net/http"

// request is a valid request for an operation of the document. Its texts can contain
// placeholders: names from access.sql, such as {organizationId}, and for the caller
// {callerId}, {callerEmail} and {callerOrganizationId}.
type request struct {
	operation string
	what      string // distinguishes several requests of the same operation
	path      string // instead of the document's path
	query     string
	body      string // instead of the document's example
	headers   map[string]string
	before    func(a *call) // creates other required data

	// Rules that the document states only as text.

	roles []string // the roles that may send this request, if fewer than x-roles
	mine  string   // the user that the resource belongs to; others get 404
	blind bool     // IDs of another organization are treated like unknown IDs
	gets  int      // the status for every valid credential, if it is not a success
}

// requests contains at least one request for each operation.
var requests = []request{
	{operation: "getCloudHealth"},
	{operation: "checkCloudLiveness"},
	{operation: "checkCloudReadiness"},
	{operation: "getCloudMetrics"},
	{operation: "signUp", body: `{"email": "new-{freshId}@example.com", "password": "` + password + `", "name": "Nina"}`},
	{operation: "signIn", body: `{"email": "owner-{mark}@example.com", "password": "` + password + `"}`},
	{operation: "getAuthOptions"},
	{operation: "createSignInLink"},
	{operation: "signInWithLink", body: `{"token": "{mailToken}"}`, before: mailed("signIn")},
	{operation: "updateUser"},
	{operation: "signOut"},
	{operation: "getAuthSession"},
	{operation: "verifyEmail", body: `{"token": "{mailToken}"}`, before: mailed("verifyEmail")},
	{operation: "sendVerificationEmail", before: func(a *call) {
		a.exec(`UPDATE users SET email_verified_at = NULL WHERE id::text = '{callerId}'`)
	}},
	{operation: "requestPasswordReset", body: `{"email": "owner-{mark}@example.com"}`},
	{operation: "resetPassword", body: `{"token": "{mailToken}", "password": "purple monkey dishwasher"}`, before: mailed("resetPassword")},
	{operation: "changePassword"},
	{operation: "listAuthSessions"},
	{operation: "endAuthSession", path: "/v1/auth/sessions/{ownerSessionId}", mine: "owner", before: func(a *call) {
		caller, err := a.env.parts.accounts.Authenticate(a.t.Context(), a.env.signIn(a.t, a.ours, "owner"))
		a.must(err)
		a.free["ownerSessionId"] = caller.SessionID.String()
	}},
	{operation: "signOutEverywhere"},
	{operation: "listAccessTokens"},
	{operation: "createAccessToken"},
	{operation: "revokeAccessToken", mine: "owner"},
	{operation: "startOidcSignIn"},
	{operation: "completeOidcSignIn", what: "without a started sign-in", query: "state=s&code=c", gets: http.StatusBadRequest},
	{operation: "openVerifyEmail"},
	{operation: "openResetPassword"},
	{operation: "openAcceptInvitation"},

	{operation: "listOrganizations"},
	{operation: "createOrganization", body: `{"name": "Analytical Engines", "slug": "fresh-{freshId}"}`},
	{operation: "activateOrganization"},
	{operation: "listApiKeys"},
	{operation: "createApiKey"},
	{operation: "updateApiKey", body: `{"name": "fleet in Frankfurt", "expiresAt": "2999-12-31T00:00:00Z"}`},
	{operation: "updateApiKey", what: "through the caller's organization", path: "/v1/organizations/{callerOrganizationId}/api-keys/{keyId}", body: `{"name": "taken over"}`},
	{operation: "revokeApiKey"},
	{operation: "revokeApiKey", what: "through the caller's organization", path: "/v1/organizations/{callerOrganizationId}/api-keys/{keyId}"},
	{operation: "getOrganization"},
	{operation: "updateOrganization", body: `{"name": "Difference Engines"}`},
	{operation: "checkNetworkRules"},
	{operation: "deleteOrganization", query: "confirmSlug=engines-{mark}"},
	{operation: "listMembers"},
	{operation: "updateMember", what: "a member, to admin", path: member, roles: []string{"owner"}},
	{operation: "updateMember", what: "a member, unchanged", path: member, body: `{"role": "member"}`},
	{operation: "updateMember", what: "an owner, to member", path: "/v1/organizations/{organizationId}/members/{partnerId}",
		body: `{"role": "member"}`, roles: []string{"owner"}},
	{operation: "deleteMember", what: "a member", path: member, roles: []string{"owner", "admin"}},
	{operation: "deleteMember", what: "an owner", path: "/v1/organizations/{organizationId}/members/{partnerId}", roles: []string{"owner"}},
	{operation: "deleteMember", what: "the caller", path: "/v1/organizations/{organizationId}/members/{callerId}"},
	{operation: "updateMember", what: "through the caller's organization", path: "/v1/organizations/{callerOrganizationId}/members/{otherId}", body: `{"role": "member"}`},
	{operation: "deleteMember", what: "through the caller's organization", path: "/v1/organizations/{callerOrganizationId}/members/{otherId}", roles: []string{"owner", "admin"}},
	{operation: "inviteMember", what: "as member", body: `{"email": "new-{mark}@example.com", "role": "member"}`},
	{operation: "inviteMember", what: "as admin", body: `{"email": "new-{mark}@example.com", "role": "admin"}`, roles: []string{"owner"}},
	{operation: "listInvitations"},
	{operation: "revokeInvitation", what: "of a member"},
	{operation: "revokeInvitation", what: "of an owner", roles: []string{"owner"}, before: func(a *call) {
		a.exec(`UPDATE invitations SET role = 'owner' WHERE id = '{invitationId}'`)
	}},
	{operation: "revokeInvitation", what: "through the caller's organization", path: "/v1/organizations/{callerOrganizationId}/invitations/{invitationId}"},
	{operation: "acceptInvitation", body: `{"token": "{mailToken}"}`, before: func(a *call) {
		a.exec(`INSERT INTO organizations VALUES ('{freshId}', 'Host', 'host-{freshId}', now());
			INSERT INTO subscriptions (organization_id, plan_id, created_at, updated_at)
				SELECT '{freshId}', id, now(), now() FROM plans WHERE slug = 'enterprise';
			INSERT INTO invitations (id, organization_id, email, role, token_hash, created_at, expires_at) VALUES
				(gen_random_uuid(), '{freshId}', '{callerEmail}', 'member', sha256('{mailToken}'), now(), now() + interval '1 day')`)
	}},
	{operation: "rotateApiKey"},
	{operation: "rotateApiKey", what: "through the caller's organization", path: "/v1/organizations/{callerOrganizationId}/api-keys/{keyId}/rotate"},
	{operation: "getConnectGuide"},
	{operation: "listServiceAccounts"},
	{operation: "createServiceAccount"},
	{operation: "getServiceAccount"},
	{operation: "getServiceAccount", what: "through the caller's organization", path: account},
	{operation: "updateServiceAccount"},
	{operation: "updateServiceAccount", what: "through the caller's organization", path: account},
	{operation: "deleteServiceAccount"},
	{operation: "deleteServiceAccount", what: "through the caller's organization", path: account},
	{operation: "listServiceAccountTokens"},
	{operation: "listServiceAccountTokens", what: "through the caller's organization", path: account + "/tokens"},
	{operation: "createServiceAccountToken"},
	{operation: "createServiceAccountToken", what: "through the caller's organization", path: account + "/tokens"},
	{operation: "revokeServiceAccountToken", path: "/v1/organizations/{organizationId}/service-accounts/{serviceAccountId}/tokens/{accountTokenId}"},
	{operation: "revokeServiceAccountToken", what: "through the caller's organization", path: account + "/tokens/{accountTokenId}"},

	{operation: "listPlans"},
	{operation: "getSubscription"},
	{operation: "listInvoices"},
	{operation: "startCheckout", before: func(a *call) {
		for _, v := range []tenant{a.ours, a.theirs} {
			a.exec(v.fill(`
				DELETE FROM subscription_add_ons WHERE organization_id = '{organizationId}';
				UPDATE subscriptions SET plan_id = (SELECT id FROM plans WHERE slug = 'free'), price_cents = 0, additional_profile_limit = 0,
					provider = NULL, period_anchor = NULL, current_period_start = NULL, current_period_end = NULL
				WHERE organization_id IN ('{organizationId}', '{besideId}')`))
		}
	}},
	{operation: "changePlan"},
	{operation: "cancelSubscription"},
	{operation: "resumeSubscription"},
	{operation: "openBillingPortal"},
	{operation: "listAddOns"},
	{operation: "addAddOn"},
	{operation: "removeAddOn"},
	{operation: "receiveStripeEvent", what: "without Stripe", headers: map[string]string{"Stripe-Signature": "t=1,v1=00"}, gets: http.StatusNotFound},

	{operation: "listProfiles"},
	{operation: "createProfile"},
	{operation: "getProfileStats"},
	{operation: "getProfile"},
	{operation: "updateProfile"},
	{operation: "deleteProfile", path: "/v1/profiles/{idleProfileId}"},
	{operation: "duplicateProfile"},
	{operation: "checkDeletedProfileData", path: "/v1/profile-data/0123456789abcdef0123456789abcdef/deleted"},
	{operation: "listProfileDataVersions"},
	{operation: "deleteProfileDataVersion"},
	{operation: "activateProfileDataVersion"},
	{operation: "listSecrets"},
	{operation: "createSecret"},
	{operation: "getSecret"},
	{operation: "updateSecret"},
	{operation: "deleteSecret"},
	{operation: "useSecret", body: `{"sessionId": "{sessionId}", "field": "username", "origin": "https://accounts.example.com"}`, before: func(a *call) {
		a.exec(`UPDATE license_slots SET state = 'running' WHERE session_id = '{sessionId}'`)
	}},
	{operation: "listWebhookEndpoints"},
	{operation: "createWebhookEndpoint"},
	{operation: "getWebhookEndpoint"},
	{operation: "updateWebhookEndpoint"},
	{operation: "rotateWebhookSecret"},
	{operation: "sendTestEvent"},
	{operation: "listWebhookDeliveries"},
	{operation: "sendWebhookDelivery"},
	{operation: "deleteWebhookEndpoint"},
	{operation: "receiveEvents", query: "waitSeconds=1", before: func(a *call) {
		a.env.parts.webhooks.StopStreams() // the response ends
	}},
	{operation: "listSessions"},
	{operation: "getSession", path: "/v1/sessions/{pastId}"},
	{operation: "listMachines"},
	{operation: "updateMachine", path: "/v1/machines/host-{mark}"},
	{operation: "deleteMachine", path: "/v1/machines/host-{mark}", before: func(a *call) {
		a.exec(`UPDATE license_machines SET heartbeat_at = now() - interval '1 day' WHERE machine_id = 'host-{mark}'`)
	}},

	{operation: "authorizeLaunch", body: `{"machineId": "machine-{mark}", "bootId": "{bootId}", "sessionId": "{freshId}", "profileId": "{profileId}"}`},
	{operation: "listLicenseSessions"},
	{operation: "getLicenseSlot"},
	{operation: "listLicenseEvents"},
	{operation: "getLicenseUsage"},
	{operation: "getLicenseUsageByDay"},
	{operation: "heartbeatLicenseSessions", blind: true,
		body: `{"machineId": "machine-{mark}", "bootId": "{bootId}", "seq": 12, "sessions": ["{sessionId}"]}`},
	{operation: "reclaimLicenseSessions"},
	{operation: "getProfileConfig"},
	{operation: "openProfileData", body: `{"sessionId": "{sessionId}", "machineId": "machine-{mark}"}`},
	{operation: "addProfileDataVersion", body: `{"id": "{freshId}", "sessionId": "{sessionId}", "machineId": "machine-{mark}",
		"previousVersionId": "{versionId}", "sizeBytes": 1, "sentBytes": 1, "keepVersions": 3}`, before: func(a *call) {
		a.exec(`UPDATE profile_data SET lease_session = '{sessionId}', lease_machine = 'machine-{mark}' WHERE profile_id = '{profileId}'`)
	}},
	{operation: "startProfileSession", body: `{"sessionId": "{sessionId}", "slotId": "{slotId}", "machineId": "machine-{mark}",
		"bootId": "{bootId}", "seq": 11, "launchId": "{sessionId}", "browserVersion": 156, "startedAt": "2026-11-21T10:15:00Z"}`},
	{operation: "endProfileSession"},
	{operation: "listChromiumReleases"},
	{operation: "downloadChromiumRelease", query: "os=linux&arch=x86_64"},
	{operation: "getChromiumReleaseHeaders", query: "os=linux&arch=x86_64"},
	{operation: "createContactMessage"},
	{operation: "listAuditEvents"},
}

const account = "/v1/organizations/{callerOrganizationId}/service-accounts/{serviceAccountId}"

const member = "/v1/organizations/{organizationId}/members/{otherId}"

// mailed stores {mailToken} as a token that was mailed to the owner.
func mailed(purpose string) func(*call) {
	return func(a *call) {
		a.exec(`INSERT INTO auth_tokens (token_hash, user_id, purpose, created_at, expires_at)
			VALUES (sha256('{mailToken}'), '{ownerId}', '` + purpose + `', now(), now() + interval '1 hour')`)
	}
}
