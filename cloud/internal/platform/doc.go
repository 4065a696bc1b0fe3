// Package platform groups services for the other packages: mail, contact messages,
// audit events, idempotency keys, retention, sealed secrets and the rules of e-mail
// addresses. Every group may import it; it imports none. app runs its background
// jobs (mail, retention); it has no locks of its own.
package platform
